#include "client/terminal/wait_changes.h"

#include <algorithm>

#include "client/terminal/progress.h"
#include "common/text/printable.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kUsualStart = absl::Seconds(2);

}  // namespace

std::string WaitChanges::Next(const v1::JobStatus& status, absl::Duration now) {
  const bool placing = status.state() == v1::PLACING;
  placing_since_ = placing ? std::min(placing_since_, now) : absl::InfiniteDuration();
  const bool starts = placing && now - placing_since_ < kUsualStart;
  const std::string& waits = starts || HasEnded(status) ? "" : status.waiting_for();
  if (waits == told_) return "";
  told_ = waits;
  return PrintableLine(waits);
}

}  // namespace muster
