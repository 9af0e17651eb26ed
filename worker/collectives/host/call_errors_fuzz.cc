#include <cstddef>
#include <cstdint>
#include <string>

#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "common/text/printable.h"
#include "worker/collectives/host/call_errors.h"

namespace muster {

// Headers and states of other ranks may be any bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const CallErrors errors("job j, round 1", 2, {});
  CallErrors::Side own{.rank = 0, .header = {}, .label = "bucket 3"};
  CallErrors::Side other{.rank = 1, .header = input.Number<CallHeader>(), .label = ""};
  own.header.sequence = input.Number<uint64_t>();
  own.header.kind = other.header.kind;
  RankState states[2];
  states[1].call = input.Number<CallState>();
  states[1].life = static_cast<RankState::Life>(input.Number<uint8_t>() % 4);
  const absl::Status said[] = {
      errors.Mismatch(own, other),
      errors.Late(states[0].call, 0, input.Number<uint8_t>() % 2 == 0 ? -1 : 1, absl::Seconds(1),
                  states),
      errors.Lost(states[1].call, 0, absl::UnavailableError("cause"), states),
  };
  constexpr size_t kMostText = 600;
  for (const absl::Status& status : said) {
    FUZZ_CHECK(errors.IsComplete(status));
    FUZZ_CHECK(status.message().size() < kMostText);
    // Labels are shown in UTF-8, without what would move a terminal's cursor.
    FUZZ_CHECK(PrintableLine(status.message()) == status.message());
  }
  return 0;
}

}  // namespace muster
