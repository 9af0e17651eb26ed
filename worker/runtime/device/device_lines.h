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
  // Usable devices by ascending number. Numbers may be missing.
  std::vector<OfferedDevice> devices;
  // Number of each other device, and why the device cannot be used.
  std::vector<std::string> left_out;
};

// Formats one line per device: "NUMBER MEMORY_BYTES NAME", or "- REASON" for one that is left out.
std::string FormatDevices(const FoundDevices& found);
// Parses the text of FormatDevices. InvalidArgument, naming the line: a line has neither form.
absl::StatusOr<FoundDevices> ParseDevices(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_LINES_H_
