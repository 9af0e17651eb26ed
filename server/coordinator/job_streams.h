#ifndef MUSTER_SERVER_COORDINATOR_JOB_STREAMS_H_
#define MUSTER_SERVER_COORDINATOR_JOB_STREAMS_H_

#include "grpcpp/server_context.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/coordinator_loop.h"
#include "server/coordinator/rpc_edge.h"

namespace muster {

// JobService's streams. Each sends what there is, then parks a call for what comes next; at most
// one message is in flight. They delete themselves when gRPC is done with them.

RawStream* StartWatch(CoordinatorLoop& loop, const v1::GetJobRequest& request,
                      grpc::CallbackServerContext* context);

RawStream* StartLogs(CoordinatorLoop& loop, const v1::ReadLogsRequest& request,
                     grpc::CallbackServerContext* context);

RawStream* StartMetrics(CoordinatorLoop& loop, const v1::ReadMetricsRequest& request,
                        grpc::CallbackServerContext* context);

// Traces a job; the trace ends with the stream.
RawStream* StartTrace(CoordinatorLoop& loop, const v1::TraceJobRequest& request,
                      grpc::CallbackServerContext* context);

// Streams a checkpoint, read on the export thread no faster than the client takes it. A client that
// takes nothing for half a minute loses its stream, so that it does not hold up others.
RawStream* StartExport(CoordinatorLoop& loop, const v1::CheckpointRequest& request,
                       grpc::CallbackServerContext* context);

// Takes a shipped folder, no faster than it gets to the disk.
RawUpload* StartShipFolder(CoordinatorLoop& loop, grpc::ByteBuffer* reply);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_STREAMS_H_
