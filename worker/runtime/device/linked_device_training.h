#ifndef MUSTER_WORKER_RUNTIME_DEVICE_LINKED_DEVICE_TRAINING_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_LINKED_DEVICE_TRAINING_H_

#include <memory>

#include "worker/device/weights/device_shard.h"
#include "worker/runtime/task/device_training.h"

namespace muster {

struct LinkedDeviceOptions {
  // Number of the device, as the process counts devices.
  int device = 0;
  MakeDeviceCommunicator make_communicator;
};

// Returns training on the devices linked into the program: //worker/device:cuda or :emulated.
std::unique_ptr<DeviceTraining> MakeLinkedDeviceTraining(LinkedDeviceOptions options);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_LINKED_DEVICE_TRAINING_H_
