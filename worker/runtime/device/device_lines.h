#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_LINES_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_LINES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rpc/membership/cluster_client.h"

namespace muster {

// The devices that a program finds.
struct FoundDevices {
  // In order of their numbers, some of which may be missing.
  std::vector<OfferedDevice> devices;
  // For each of the others, why it cannot be used, its number included.
  std::vector<std::string> left_out;
};

// As text: for each device a line of its number, bytes of memory, and name, and for each that is
// left out a line of "-" and why; blanks between.
std::string FormatDevices(const FoundDevices& found);
// InvalidArgument: says which line is none of these.
absl::StatusOr<FoundDevices> ParseDevices(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_LINES_H_
