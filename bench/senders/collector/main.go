// SPDX-License-Identifier: Apache-2.0

// The OpenTelemetry Collector with the receiver and the exporters of OTLP alone; and, as `collector feed ADDRESS SERVICE`, the program that
// sends it a profile: 3 s in a function with a name, 7 s at a bare address of this program, both seen under a thread's name.
package main

import (
	"context"
	"debug/elf"
	"encoding/hex"
	"log"
	"os"
	"reflect"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

//go:noinline
func burnBare() int { return len(os.Args) }

type tables struct {
	d       pprofile.ProfilesDictionary
	strings map[string]int32
}

func (t *tables) text(s string) int32 {
	if n, ok := t.strings[s]; ok {
		return n
	}
	t.d.StringTable().Append(s)
	t.strings[s] = int32(t.d.StringTable().Len() - 1)
	return t.strings[s]
}

func (t *tables) attribute(key, value string) int32 {
	a := t.d.AttributeTable().AppendEmpty()
	a.SetKeyStrindex(t.text(key))
	a.Value().SetStr(value)
	return int32(t.d.AttributeTable().Len() - 1)
}

func (t *tables) stack(location int32) int32 {
	t.d.StackTable().AppendEmpty().LocationIndices().Append(location)
	return int32(t.d.StackTable().Len() - 1)
}

func buildID(f *elf.File) string {
	note, err := f.Section(".note.gnu.build-id").Data()
	check(err)
	return hex.EncodeToString(note[16:])
}

// The segment with the code of this program.
func mapSelf(t *tables) int32 {
	f, err := elf.Open("/proc/self/exe")
	check(err)
	m := t.d.MappingTable().AppendEmpty()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			m.SetMemoryStart(p.Vaddr)
			m.SetMemoryLimit(p.Vaddr + p.Memsz)
			m.SetFileOffset(p.Off)
		}
	}
	m.SetFilenameStrindex(t.text("collector"))
	m.AttributeIndices().Append(t.attribute("process.executable.build_id.gnu", buildID(f)))
	return int32(t.d.MappingTable().Len() - 1)
}

func profiles(service string) pprofile.Profiles {
	all := pprofile.NewProfiles()
	t := &tables{all.Dictionary(), map[string]int32{}}
	// Element 0 of each table is nothing.
	t.text("")
	t.d.MappingTable().AppendEmpty()
	t.d.LocationTable().AppendEmpty()
	t.d.FunctionTable().AppendEmpty()
	t.d.LinkTable().AppendEmpty()
	t.d.AttributeTable().AppendEmpty()
	t.d.StackTable().AppendEmpty()

	f := t.d.FunctionTable().AppendEmpty()
	f.SetNameStrindex(t.text("main.burnNamed"))
	f.SetFilenameStrindex(t.text("main.go"))
	named := t.d.LocationTable().AppendEmpty()
	named.Lines().AppendEmpty().SetFunctionIndex(1)
	bare := t.d.LocationTable().AppendEmpty()
	bare.SetMappingIndex(mapSelf(t))
	bare.SetAddress(uint64(reflect.ValueOf(burnBare).Pointer()))

	r := all.ResourceProfiles().AppendEmpty()
	r.Resource().Attributes().PutStr("service.name", service)
	p := r.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	p.SampleType().SetTypeStrindex(t.text("cpu"))
	p.SampleType().SetUnitStrindex(t.text("nanoseconds"))
	p.PeriodType().SetTypeStrindex(t.text("cpu"))
	p.PeriodType().SetUnitStrindex(t.text("nanoseconds"))
	p.SetPeriod(10_000_000)
	p.SetTime(pcommon.NewTimestampFromTime(time.Now().Add(-10 * time.Second)))
	p.SetDurationNano(10_000_000_000)
	thread := t.attribute("thread.name", "worker")
	for location, seconds := range []int64{0, 3, 7} {
		if seconds == 0 {
			continue
		}
		s := p.Samples().AppendEmpty()
		s.SetStackIndex(t.stack(int32(location)))
		s.Values().Append(seconds * 1_000_000_000)
		s.AttributeIndices().Append(thread)
	}
	return all
}

func feed(address, service string) {
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	_, err = pprofileotlp.NewGRPCClient(c).Export(context.Background(), pprofileotlp.NewExportRequestFromProfiles(profiles(service)), grpc.WaitForReady(true))
	check(err)
}

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	check(err)
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](otlpexporter.NewFactory(), otlphttpexporter.NewFactory())
	return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: otelconftelemetry.NewFactory()}, err
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "feed" {
		burnBare()
		feed(os.Args[2], os.Args[3])
		return
	}
	check(otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(),
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			DefaultScheme: "file", ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()}}},
	}).Execute())
}
