#include "worker/runtime/device/device_program.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/mutex_tuning.h"
#include "common/daemon/daemon.h"
#include "common/rpc/memory_tuning.h"
#include "common/text/utf8.h"
#include "proto/cluster_service.pb.h"
#include "worker/runtime/device/device_lines.h"
#include "worker/runtime/device/find_devices.h"
#include "worker/runtime/device/linked_device_training.h"
#include "worker/runtime/device/list_devices.h"
#include "worker/runtime/process/framed_message.h"
#include "worker/runtime/process/task_process.h"
#include "worker/runtime/process/task_program.h"

namespace muster {
namespace {

int ReportDevices() {
  v1::TaskReport report;
  report.set_state(v1::TaskReport::ENDED);
  const absl::StatusOr<FoundDevices> found = FindDevices();
  report.set_code(static_cast<int>(found.status().code()));
  report.set_message(
      ToUtf8(found.ok() ? FormatDevices(*found) : std::string(found.status().message())));
  return WriteFrame(kControlDescriptor, report.SerializeAsString()).ok() ? 0 : 1;
}

}  // namespace

int RunDeviceProgram(int argc, char** argv, const DeviceProgram& program) {
  KeepMessageMemory();
  SkipDeadlockDetection();
  IgnoreFileSignals();
  if (argc == 2 && std::strcmp(argv[1], kListDevicesFlag) == 0) return ReportDevices();
  if (argc >= 2 && std::strcmp(argv[1], kTaskFlag) == 0) {
    TaskProgramParts parts;
    parts.make_devices = [&program](int device) {
      return MakeLinkedDeviceTraining(
          {.device = device, .make_communicator = program.make_communicator(device)});
    };
    return RunTaskProgram(argc - 1, argv + 1, program.name, parts);
  }
  std::fprintf(stderr, "%s is not for people: muster-worker starts it; see muster-worker --help\n",
               program.name);
  return 2;
}

}  // namespace muster
