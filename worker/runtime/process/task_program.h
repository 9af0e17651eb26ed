#ifndef MUSTER_WORKER_RUNTIME_PROCESS_TASK_PROGRAM_H_
#define MUSTER_WORKER_RUNTIME_PROCESS_TASK_PROGRAM_H_

#include "worker/runtime/process/task_child.h"

namespace muster {

// The options that a program adds to the tasks that it runs (TaskChildOptions).
struct TaskProgramParts {
  MakeDeviceTraining make_devices;
  WrapEndpoint wrap_endpoint;
  WrapClient wrap_client;
  WrapModel wrap_model;
};

// The main function of a task's process; arguments start at kTaskFlag. Reads the flags that the
// daemon hands on, and runs the task. `program` is the name in the log. Returns the exit status.
int RunTaskProgram(int argc, char** argv, const char* program, const TaskProgramParts& parts);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROCESS_TASK_PROGRAM_H_
