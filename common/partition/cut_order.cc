#include "common/partition/cut_order.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {

namespace {

// The beginning of an order.
struct Head {
  uint32_t step = 0;
  uint32_t has_loss_scale = 0;
  // The base's clock plus 1; 0: none.
  uint64_t base = 0;
};
static_assert(sizeof(Head) == 16 && sizeof(LossScale) == 8);

absl::Status TooShort(const Payload& payload, size_t expected) {
  return absl::InvalidArgumentError(absl::StrCat("the payload of a cut has ", payload.size(),
                                                 " bytes, expected none or at least ", expected));
}

}  // namespace

Payload EncodeCutOrder(const CutOrder& order) {
  const Head head{.step = static_cast<uint32_t>(order.step),
                  .has_loss_scale = order.loss_scale.has_value(),
                  .base = order.base.has_value() ? *order.base + 1 : 0};
  std::vector<std::byte> bytes(order.bytes());
  std::memcpy(bytes.data(), &head, sizeof(head));
  if (order.loss_scale.has_value()) {
    std::memcpy(bytes.data() + sizeof(head), &*order.loss_scale, sizeof(LossScale));
  }
  return Payload::Of(std::move(bytes));
}

absl::StatusOr<CutOrder> ReadCutOrder(const Payload& payload) {
  CutOrder order;
  if (payload.size() == 0) return order;
  Head head;
  if (payload.size() < sizeof(head)) return TooShort(payload, sizeof(head));
  payload.Slice(0, sizeof(head)).CopyTo(&head);
  if (head.step > static_cast<uint32_t>(CutOrder::Step::kWrite) || head.has_loss_scale > 1) {
    return absl::InvalidArgumentError(absl::StrCat("a cut begins with ", head.step, " and ",
                                                   head.has_loss_scale,
                                                   ", which this server does not know"));
  }
  order.step = static_cast<CutOrder::Step>(head.step);
  if (head.base > 0) order.base = head.base - 1;
  if (head.has_loss_scale == 1) {
    order.loss_scale.emplace();
    if (payload.size() < order.bytes()) return TooShort(payload, order.bytes());
    payload.Slice(sizeof(head), sizeof(LossScale)).CopyTo(&*order.loss_scale);
  }
  return order;
}

}  // namespace muster
