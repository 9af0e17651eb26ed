#include "worker/runtime/device_program.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/mutex_tuning.h"
#include "common/daemon/daemon.h"
#include "common/device/device.h"
#include "common/rpc/memory_tuning.h"
#include "proto/cluster_service.pb.h"
#include "worker/runtime/framed_message.h"
#include "worker/runtime/linked_device_training.h"
#include "worker/runtime/list_devices.h"
#include "worker/runtime/task_process.h"
#include "worker/runtime/task_program.h"

namespace muster {
namespace {

// Up to the first that cannot be used.
int ReportDevices(const DeviceProgram& program) {
  v1::TaskReport report;
  report.set_state(v1::TaskReport::ENDED);
  for (int index = 0; index < program.most_devices; ++index) {
    const auto device = OpenDevice(index);
    if (device.ok()) {
      absl::StrAppend(report.mutable_message(), device->memory_bytes, " ", device->name, "\n");
      continue;
    }
    if (index == 0) {
      report.set_code(static_cast<int>(device.status().code()));
      report.set_message(std::string(device.status().message()));
    }
    break;
  }
  return WriteFrame(kControlDescriptor, report.SerializeAsString()).ok() ? 0 : 1;
}

}  // namespace

int RunDeviceProgram(int argc, char** argv, const DeviceProgram& program) {
  KeepMessageMemory();
  SkipDeadlockDetection();
  IgnoreBrokenPipes();
  if (argc == 2 && std::strcmp(argv[1], kListDevicesFlag) == 0) return ReportDevices(program);
  if (argc >= 2 && std::strcmp(argv[1], kTaskFlag) == 0) {
    return RunTaskProgram(argc - 1, argv + 1, program.name, [&program](int device) {
      return MakeLinkedDeviceTraining(
          {.device = device, .make_communicator = program.make_communicator(device)});
    });
  }
  std::fprintf(stderr, "%s is not for people: muster-worker starts it; see muster-worker --help\n",
               program.name);
  return 2;
}

}  // namespace muster
