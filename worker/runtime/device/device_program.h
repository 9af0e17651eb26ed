#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_PROGRAM_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_PROGRAM_H_

#include <functional>

#include "worker/device/weights/device_shard.h"

namespace muster {

// A program that a worker daemon starts to run tasks on devices and to list devices. It is linked
// with one kind of device: //worker/device:cuda or :emulated.
struct DeviceProgram {
  const char* name = "";
  // Returns what makes communicators for a rank on device number `device`.
  std::function<MakeDeviceCommunicator(int device)> make_communicator;
};

// Lists devices (--list-devices) or runs a task. Returns the exit status for main.
int RunDeviceProgram(int argc, char** argv, const DeviceProgram& program);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_PROGRAM_H_
