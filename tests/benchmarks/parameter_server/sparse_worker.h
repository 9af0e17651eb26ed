#ifndef MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_SPARSE_WORKER_H_
#define MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_SPARSE_WORKER_H_

namespace muster {

// A worker that pushes and pulls rows of one sparse table as a task does, told what to do by lines
// on standard input, each answered by one line on standard output:
//   open WAY PARTITIONS ADDRESS
//     Opens an empty table on the server, to be reached by grpc, tcp or shared_memory. Answer: ok
//   fill ROWS
//     Pushes to keys 0 to ROWS-1, so that they have rows. Answer: ok
//   run OPERATION DISTRIBUTION ROWS KEYS IN_FLIGHT SECONDS
//     Requests of KEYS keys drawn from ROWS, by push or pull. Answer: MOVED DRAWN SECONDS
//     MEDIAN_REQUEST_US, where MOVED are distinct keys.
//   drop
//     Answer: ok
// Anything that fails is answered with "error: MESSAGE" and ends it. Returns the exit code.
//
// A request of push deals its keys to partitions, gathers their gradients and ends with the answers
// to the closes, after which the server has summed them and run SGD (BSP); one of pull ends when
// the rows are in the worker's memory in the order of the keys.
int RunSparseWorker();

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_SPARSE_WORKER_H_
