#ifndef MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_BENCH_SERVER_H_
#define MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_BENCH_SERVER_H_

#include <string>

#include "common/transport/data_channel/channel_handshake.h"

namespace muster {

// Job whose operations are answered at once, with nothing done: what the transport alone costs.
inline constexpr char kEmptyHandlerJob[] = "empty-handler";

// Serves the engine of muster-server on a free port of loopback; prints the address as a line and
// returns when standard input ends. Without a data folder in memory alone; `security` is of its
// data channels. Returns the process's
// exit code.
int RunBenchServer(const std::string& data_dir, ChannelSecurity security);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_BENCH_SERVER_H_
