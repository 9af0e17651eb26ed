#ifndef MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_BENCH_WORKER_H_
#define MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_BENCH_WORKER_H_

namespace muster {

// A worker that moves the blocks of one dense table as a task does, told what to do by lines on
// standard input, each answered by one line on standard output:
//   open JOB BYTES WAY DURABILITY ADDRESS...
//     Opens a table of BYTES over all servers, one partition on each, to be reached by grpc, tcp or
//     shared_memory; durability is every-push or checkpoint. Answer: ok
//   run OPERATION IN_FLIGHT SECONDS
//     Steps of push, pull or push-pull. Answer: BYTES SECONDS MEDIAN_STEP_US
//   drop
//     Drops the job's tables. Answer: ok
// An error is answered by "error: …" and ends the process. Returns the process's exit code.
//
// A step of push sends gradients of the whole table in messages of at most 4 MiB and closes the
// clock, upon which the servers run SGD; it ends with the answer to the close. A step of pull ends
// when the parameters are in the arena.
int RunBenchWorker();

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_BENCH_WORKER_H_
