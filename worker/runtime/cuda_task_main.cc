// muster-cuda-task: runs tasks that compute on a GPU, and lists GPUs, for muster-worker.

#include <memory>

#include "worker/collectives/nccl/nccl_communicator.h"
#include "worker/collectives/nccl/nccl_watch.h"
#include "worker/runtime/device/device_program.h"

int main(int argc, char** argv) {
  muster::DeviceProgram program;
  program.name = "muster-cuda-task";
  program.make_communicator = [](int device) -> muster::MakeDeviceCommunicator {
    return [device](muster::Communicator& host) {
      // All groups of an NcclWatch fail together, so each group of tasks has its own.
      muster::NcclGroupOptions options;
      options.name = host.recorder().group();
      options.device = device;
      return muster::MakeNcclCommunicator(std::make_shared<muster::NcclWatch>(), host, options);
    };
  };
  return muster::RunDeviceProgram(argc, argv, program);
}
