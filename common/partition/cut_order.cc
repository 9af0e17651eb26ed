#include "common/partition/cut_order.h"

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {

Payload EncodeCutOrder(const CutOrder& order) {
  return Payload::Of(std::vector<uint64_t>{static_cast<uint64_t>(order.step),
                                           order.base.has_value() ? *order.base + 1 : 0});
}

absl::StatusOr<CutOrder> ReadCutOrder(const Payload& payload) {
  CutOrder order;
  if (payload.size() == 0) return order;
  if (payload.size() < kCutOrderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the payload of a cut has ", payload.size(),
                                                   " bytes, expected none or at least ",
                                                   kCutOrderBytes));
  }
  std::array<uint64_t, 2> words;
  payload.Slice(0, kCutOrderBytes).CopyTo(words.data());
  if (words[0] > static_cast<uint64_t>(CutOrder::Step::kWrite)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the step of a cut is ", words[0], ", which this server does not know"));
  }
  order.step = static_cast<CutOrder::Step>(words[0]);
  if (words[1] > 0) order.base = words[1] - 1;
  return order;
}

}  // namespace muster
