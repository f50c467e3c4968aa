// SPDX-License-Identifier: Apache-2.0

// A sender of Parca's protocol with the libraries that its agent has, grpc-go and arrow-go: WriteArrow with a bare address of this program, then
// DebuginfoService with the program itself, in the order of calls and by the strategy (a PUT to a URL, or the call Upload) that its own clients
// have. Parca's clients are $PARCA_AGENT and $PARCA_DEBUGINFO of bench/senders.py; this one needs nothing but the Go module proxy.
package main

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"reflect"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/encoding/protowire"
)

//go:noinline
func burnParca() int { return len(os.Args) }

// Messages are made by hand: the generated modules of Parca's protos are in a registry of their own.
type raw struct{ b []byte }
type codec struct{}

func (codec) Marshal(v any) ([]byte, error)   { return v.(*raw).b, nil }
func (codec) Unmarshal(b []byte, v any) error { v.(*raw).b = bytes.Clone(b); return nil }
func (codec) Name() string                    { return "proto" }

func text(n protowire.Number, s []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), s)
}
func number(n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
}
func field(b []byte, n protowire.Number) []byte {
	for len(b) > 0 {
		k, t, l := protowire.ConsumeTag(b)
		b = b[l:]
		if k == n {
			v, _ := protowire.ConsumeBytes(b)
			return v
		}
		b = b[protowire.ConsumeFieldValue(k, t, b):]
	}
	return nil
}

func varint(b []byte, n protowire.Number) uint64 {
	for len(b) > 0 {
		k, t, l := protowire.ConsumeTag(b)
		b = b[l:]
		if k == n && t == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(b)
			return v
		}
		b = b[protowire.ConsumeFieldValue(k, t, b):]
	}
	return 0
}

func stream(id string) []byte {
	runs := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: arrow.BinaryTypes.String}
	location := arrow.StructOf(arrow.Field{Name: "address", Type: arrow.PrimitiveTypes.Uint64}, arrow.Field{Name: "mapping_file", Type: dictionary},
		arrow.Field{Name: "mapping_build_id", Type: dictionary})
	metadata := arrow.NewMetadata([]string{"parca_write_schema_version"}, []string{"v2"})
	names := []string{"producer", "sample_type", "sample_unit", "period_type", "period_unit", "temporality"}
	values := []string{"parca_agent", "samples", "count", "cpu", "nanoseconds", "delta"}
	fields := []arrow.Field{
		{Name: "labels", Type: arrow.StructOf(arrow.Field{Name: "service_name", Type: dictionary})},
		{Name: "stacktrace", Type: arrow.ListViewOf(location)},
		{Name: "value", Type: arrow.PrimitiveTypes.Int64},
		{Name: "period", Type: arrow.PrimitiveTypes.Int64},
		{Name: "duration", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "timestamp", Type: &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}},
	}
	for _, name := range names {
		fields = append(fields, arrow.Field{Name: name, Type: runs})
	}
	b := array.NewRecordBuilder(memory.NewGoAllocator(), arrow.NewSchema(fields, &metadata))
	b.Field(0).(*array.StructBuilder).Append(true)
	b.Field(0).(*array.StructBuilder).FieldBuilder(0).(*array.BinaryDictionaryBuilder).AppendString("sender.parca")
	list := b.Field(1).(*array.ListViewBuilder)
	list.AppendWithSize(true, 1)
	frame := list.ValueBuilder().(*array.StructBuilder)
	frame.Append(true)
	frame.FieldBuilder(0).(*array.Uint64Builder).Append(uint64(reflect.ValueOf(burnParca).Pointer()) + 1)
	frame.FieldBuilder(1).(*array.BinaryDictionaryBuilder).AppendString("sender")
	frame.FieldBuilder(2).(*array.BinaryDictionaryBuilder).AppendString(id)
	b.Field(2).(*array.Int64Builder).Append(7)
	b.Field(3).(*array.Int64Builder).Append(52631578)
	b.Field(4).(*array.Uint64Builder).Append(1000000000)
	b.Field(5).(*array.TimestampBuilder).Append(arrow.Timestamp(time.Now().UnixNano()))
	for i, value := range values {
		run := b.Field(6 + i).(*array.RunEndEncodedBuilder)
		run.Append(1)
		run.ValueBuilder().(*array.StringBuilder).Append(value)
	}
	var out bytes.Buffer
	record := b.NewRecord()
	w := ipc.NewWriter(&out, ipc.WithSchema(record.Schema()), ipc.WithLZ4())
	if err := w.Write(record); err != nil {
		panic(err)
	}
	w.Close()
	return out.Bytes()
}

const (
	service = "/parca.debuginfo.v1alpha1.DebuginfoService/"
	// Of Parca's own client.
	chunkSize      = 8 << 20
	maxMessageSize = 64 << 20
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func put(url string, file []byte) {
	request, err := http.NewRequest("PUT", url, bytes.NewReader(file))
	check(err)
	reply, err := http.DefaultClient.Do(request)
	check(err)
	if reply.StatusCode/100 != 2 {
		panic(reply.Status)
	}
}

// The info in a message of its own, then chunks, each in one.
func upload(c *grpc.ClientConn, id, number string, file []byte) {
	s, err := c.NewStream(context.Background(), &grpc.StreamDesc{StreamName: "Upload", ClientStreams: true}, service+"Upload",
		grpc.MaxCallSendMsgSize(maxMessageSize))
	check(err)
	check(s.SendMsg(&raw{text(1, bytes.Join([][]byte{text(1, []byte(id)), text(2, []byte(number))}, nil))}))
	reader, buffer := bufio.NewReader(bytes.NewReader(file)), make([]byte, chunkSize)
	for {
		n, err := reader.Read(buffer)
		if err == io.EOF {
			break
		}
		check(err)
		check(s.SendMsg(&raw{text(2, buffer[:n])}))
	}
	check(s.CloseSend())
	var reply raw
	check(s.RecvMsg(&reply))
	if size := varint(reply.b, 2); size != uint64(len(file)) {
		panic(size)
	}
}

func main() {
	burnParca()
	encoding.RegisterCodec(codec{})
	c, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	call := func(name string, parts ...[]byte) []byte {
		var reply raw
		check(c.Invoke(context.Background(), name, &raw{bytes.Join(parts, nil)}, &reply))
		return reply.b
	}
	self, err := os.ReadFile(os.Args[0])
	check(err)
	f, err := elf.NewFile(bytes.NewReader(self))
	check(err)
	note, err := f.Section(".note.gnu.build-id").Data()
	check(err)
	id := hex.EncodeToString(note[16:])
	call("/parca.profilestore.v1alpha1.ProfileStoreService/WriteArrow", text(1, stream(id)))
	if wanted := call(service+"ShouldInitiateUpload", text(1, []byte(id)), number(5, 1)); varint(wanted, 1) != 1 {
		panic(string(wanted))
	}
	how := field(call(service+"InitiateUpload", text(1, []byte(id)), number(2, uint64(len(self))), text(3, []byte("hash")), number(6, 1)), 1)
	strategy := map[uint64]string{1: "stream", 2: "url"}[varint(how, 3)]
	if strategy != os.Args[2] {
		panic(strategy)
	}
	if strategy == "stream" {
		upload(c, id, string(field(how, 2)), self)
	} else {
		put(string(field(how, 4)), self)
	}
	call(service+"MarkUploadFinished", text(1, []byte(id)), text(2, field(how, 2)))
}
