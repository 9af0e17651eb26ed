#ifndef MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_BENCH_CLIENT_H_
#define MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_BENCH_CLIENT_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/transport/data_channel/channel_io.h"

namespace muster {

// The timeout of the calls that open and drop a benchmark's tables.
inline constexpr absl::Duration kTablesTimeout = absl::Seconds(60);

// A client of the server at an address by one way alone: "grpc", "tcp" or "shared_memory". Where it
// turns out to go another, the process says so on standard output and ends: a figure for one way
// that was measured on another would be worse than none.
std::unique_ptr<ParameterClient> MakeBenchClient(const std::string& server, const std::string& way,
                                                 const std::shared_ptr<ChannelIo>& io);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_BENCH_CLIENT_H_
