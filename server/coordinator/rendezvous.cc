#include "server/coordinator/rendezvous.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

v1::RendezvousRecord RecordOf(const v1::RendezvousRequest& request) {
  v1::RendezvousRecord record;
  record.set_data_fingerprint(request.data_fingerprint());
  record.set_training_examples(request.training_examples());
  record.set_held_out_examples(request.held_out_examples());
  record.set_total_steps(request.total_steps());
  record.set_schema_fingerprint(request.schema_fingerprint());
  return record;
}

std::string Hex(uint64_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

absl::Status Compare(absl::string_view a_name, const v1::RendezvousRecord& a,
                     absl::string_view b_name, const v1::RendezvousRecord& b) {
  const auto differ = [&](absl::string_view field, absl::string_view a_value,
                          absl::string_view b_value, absl::string_view remedy) {
    if (a_value == b_value) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(a_name, " has ", field, " ", a_value, ", ",
                                                      b_name, " has ", b_value, "; ", remedy));
  };
  constexpr absl::string_view kSameData =
      "the workers do not see the same data: put the same files under the same path everywhere";
  constexpr absl::string_view kSameRelease =
      "the tasks built different models or plans: run the same release on all workers";
  MUSTER_RETURN_IF_ERROR(differ("training_examples", absl::StrCat(a.training_examples()),
                                absl::StrCat(b.training_examples()), kSameData));
  MUSTER_RETURN_IF_ERROR(differ("held_out_examples", absl::StrCat(a.held_out_examples()),
                                absl::StrCat(b.held_out_examples()), kSameData));
  MUSTER_RETURN_IF_ERROR(
      differ("data_fingerprint", Hex(a.data_fingerprint()), Hex(b.data_fingerprint()), kSameData));
  MUSTER_RETURN_IF_ERROR(differ("total_steps", absl::StrCat(a.total_steps()),
                                absl::StrCat(b.total_steps()), kSameRelease));
  return differ("schema_fingerprint", Hex(a.schema_fingerprint()), Hex(b.schema_fingerprint()),
                kSameRelease);
}

}  // namespace

absl::Status Rendezvous::Arrive(const v1::RendezvousRequest& request) {
  const uint32_t slot = request.task().slot();
  v1::RendezvousRecord record = RecordOf(request);
  for (const auto& [other, brought] : arrived_) {
    if (other == slot) continue;
    MUSTER_RETURN_IF_ERROR(
        Compare(absl::StrCat("slot ", other), brought, absl::StrCat("slot ", slot), record));
    // All that have come before agree with each other.
    break;
  }
  arrived_[slot] = std::move(record);
  return absl::OkStatus();
}

std::optional<v1::RendezvousRecord> Rendezvous::Met() const {
  if (arrived_.size() < slots_) return std::nullopt;
  return arrived_.begin()->second;
}

std::vector<uint32_t> Rendezvous::Missing() const {
  std::vector<uint32_t> missing;
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    if (!arrived_.contains(slot)) missing.push_back(slot);
  }
  return missing;
}

absl::Status CompareWithMet(const v1::RendezvousRequest& request, const v1::RendezvousRecord& met) {
  return Compare("the job", met, absl::StrCat("slot ", request.task().slot()), RecordOf(request));
}

}  // namespace muster
