#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_PROGRAM_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_PROGRAM_H_

#include <functional>

#include "worker/device/device_replica.h"

namespace muster {

// A program that a worker daemon starts for tasks on devices, and to find out which there are. It
// is linked with one kind: //worker/device:cuda or :emulated.
struct DeviceProgram {
  const char* name = "";
  // For ranks that have device number `device`.
  std::function<MakeDeviceCommunicator(int device)> make_communicator;
};

// The program's main: --list-devices, or what a daemon says to a task. Returns the exit status.
int RunDeviceProgram(int argc, char** argv, const DeviceProgram& program);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_PROGRAM_H_
