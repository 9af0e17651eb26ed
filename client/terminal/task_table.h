#ifndef MUSTER_CLIENT_TERMINAL_TASK_TABLE_H_
#define MUSTER_CLIENT_TERMINAL_TASK_TABLE_H_

#include <string>

namespace muster {

namespace v1 {
class JobStatus;
}  // namespace v1

// Returns a table of a job's slots: worker, state, step, a step's time and where it goes
// (computing, communication, waiting for training data), and peak memory. Lines below it say which
// steps the times cover and which slots are slow. Each line ends with a newline. Empty if the job
// has no tasks.
std::string TaskTable(const v1::JobStatus& job);

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_TASK_TABLE_H_
