// muster-emulated-task: muster-cuda-task with devices that processors emulate, for tests.

#include "worker/runtime/device/device_program.h"

int main(int argc, char** argv) {
  muster::DeviceProgram program;
  program.name = "muster-emulated-task";
  program.make_communicator = [](int) -> muster::MakeDeviceCommunicator {
    return [](muster::Communicator& host) { return host.Split(0, host.rank()); };
  };
  return muster::RunDeviceProgram(argc, argv, program);
}
