#include "worker/collectives/transport/mesh/call_text.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/text/printable.h"
#include "worker/collectives/collective_call.h"

namespace muster {

std::string LastCallText(const CallState& call) {
  if (call.sequence == 0) return "no call of it is known here";
  const bool known = call.kind <= static_cast<uint32_t>(Collective::kBarrier);
  const std::string kind = known ? Name(static_cast<Collective>(call.kind))
                                 : absl::StrCat("of unknown kind ", call.kind);
  std::string text =
      absl::StrCat("its last call was number ", call.sequence, ", ", kind, " of ", call.count);
  const std::string label(call.label, strnlen(call.label, sizeof(call.label)));
  if (!label.empty()) absl::StrAppend(&text, " (\"", PrintableLine(label), "\")");
  absl::StrAppend(&text, call.inside != 0 ? ", which had not ended" : ", which had ended");
  return text;
}

}  // namespace muster
