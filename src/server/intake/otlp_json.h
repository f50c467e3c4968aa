/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP's ExportProfilesServiceRequest and -Response, for rpc_from_json() and rpc_to_json(). */
#pragma once

#include "server/rpc/rpc.h"

extern const struct rpc_message otlp_json_request, otlp_json_reply;
