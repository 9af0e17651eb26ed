#ifndef MUSTER_TESTS_BENCHMARKS_BENCH_SERVER_H_
#define MUSTER_TESTS_BENCHMARKS_BENCH_SERVER_H_

namespace muster {

// Job whose operations are answered at once, with nothing done: what the transport alone costs.
inline constexpr char kEmptyHandlerJob[] = "empty-handler";

// Serves the engine of muster-server, in memory, on a free port of loopback; prints the address as
// a line and returns when standard input ends. Returns the process's exit code.
int RunBenchServer();

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_BENCH_SERVER_H_
