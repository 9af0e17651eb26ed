#include "common/examination/clock_facts.h"

#include "absl/time/time.h"
#include "common/examination/fact_text.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

constexpr int kReadings = 5;

}  // namespace

void CompareClocks(const Clock& clock, const std::function<absl::StatusOr<int64_t>()>& read,
                   v1::ClockFacts& facts) {
  absl::Duration shortest = absl::InfiniteDuration();
  for (int i = 0; i < kReadings; ++i) {
    const absl::Duration before = clock.Monotonic();
    const absl::Time sent = clock.Wall();
    const absl::StatusOr<int64_t> there = read();
    const absl::Duration took = clock.Monotonic() - before;
    if (!there.ok()) return facts.set_error(FactText(there.status().message()));
    if (took >= shortest) continue;
    shortest = took;
    const absl::Duration offset = sent + took / 2 - absl::FromUnixMicros(*there);
    facts.set_offset_us(absl::ToInt64Microseconds(offset));
    facts.set_error_us(absl::ToInt64Microseconds(took / 2));
  }
}

}  // namespace muster
