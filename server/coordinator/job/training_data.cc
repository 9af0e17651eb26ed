#include "server/coordinator/job/training_data.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/coordinator/job/rendezvous.h"

namespace muster {
namespace {

std::string Describe(uint64_t training, uint64_t held_out) {
  return absl::StrCat(training, " training and ", held_out, " held-out examples");
}

// Returns whether the job only evaluates another job's weights.
bool EvaluatesAnother(const v1::JobSpec& spec) {
  return spec.stop().evaluate_only() && !spec.initial_weights().empty();
}

// Names the job that trained on the data that this job has to find.
std::string TrainedBy(const v1::JobRecord& record) {
  if (!record.spec().resume_from().empty()) return record.spec().resume_from();
  if (EvaluatesAnother(record.spec())) return record.spec().initial_weights();
  return "the job";
}

std::string Remedy(const v1::JobRecord& record) {
  if (EvaluatesAnother(record.spec())) {
    return absl::StrCat(
        "bring them back as they were, or measure on what is there now: muster evaluate ",
        record.spec().initial_weights(), " --data PATH");
  }
  if (!record.spec().resume_from().empty()) {
    return "bring them back as they were; to go on with other data, put those under another path "
           "and name it in `data`, or begin afresh with the checkpoint as initial_weights";
  }
  return absl::StrCat(
      "bring them back as they were and go on from the job's last checkpoint "
      "(muster checkpoint restore ",
      record.job_id(), "), or begin afresh with other data and the checkpoint as initial_weights");
}

absl::Status CompareWithExpected(const v1::RendezvousRequest& request,
                                 const v1::JobRecord& record) {
  const v1::DataRecord& then = record.expected_data();
  const std::string had = Describe(then.training_examples(), then.held_out_examples());
  const std::string has = Describe(request.training_examples(), request.held_out_examples());
  if (had == has && then.fingerprint() == request.data_fingerprint()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the data are not those that ", TrainedBy(record), " was trained on: it had ", had, ", slot ",
      request.task().slot(), had == has ? " has as many with other content" : " has ",
      had == has ? "" : has, " (data_fingerprint ", absl::Hex(then.fingerprint(), absl::kZeroPad16),
      " then, ", absl::Hex(request.data_fingerprint(), absl::kZeroPad16), " now); ",
      Remedy(record)));
}

std::vector<v1::Adjustment> Decided(const v1::JobRecord& record) {
  return {record.adjustments().begin(), record.adjustments().end()};
}

}  // namespace

std::optional<v1::DataRecord> DataOf(const v1::JobRecord& record) {
  if (record.has_met()) {
    v1::DataRecord data;
    data.set_fingerprint(record.met().data_fingerprint());
    data.set_training_examples(record.met().training_examples());
    data.set_held_out_examples(record.met().held_out_examples());
    return data;
  }
  if (record.has_expected_data()) return record.expected_data();
  return std::nullopt;
}

absl::Status CompareWithJob(const v1::RendezvousRequest& request, const v1::JobRecord& record) {
  if (record.has_met()) return CompareWithMet(request, record.met());
  if (record.has_expected_data()) return CompareWithExpected(request, record);
  return absl::OkStatus();
}

void ExpectDataOf(const v1::JobRecord& source, v1::JobRecord& record) {
  // The specification has no maps, so equal ones have equal bytes.
  const auto named = [](const v1::JobSpec& spec) {
    return spec.data().SerializeAsString() + spec.validation().SerializeAsString();
  };
  if (named(source.spec()) != named(record.spec())) return;
  if (const std::optional<v1::DataRecord> data = DataOf(source)) {
    *record.mutable_expected_data() = *data;
  }
}

std::vector<DataPosition> PositionsOf(const v1::JobRecord& record) {
  std::vector<DataPosition> positions;
  for (int i = 0; i < record.earlier_clocks_size(); ++i) {
    positions.push_back({.clock = static_cast<int64_t>(record.earlier_clocks(i)),
                         .examples = static_cast<int64_t>(record.earlier_examples(i))});
  }
  const int64_t clock = static_cast<int64_t>(record.initial_clock());
  if (clock > 0) {
    const int64_t examples = record.has_initial_examples()
                                 ? static_cast<int64_t>(record.initial_examples())
                                 : StepBatches(record.spec().batch_size()).At(clock).begin;
    positions.push_back({.clock = clock, .examples = examples});
  }
  const std::vector<v1::Adjustment> decided = Decided(record);
  for (const v1::Adjustment& each : decided) {
    if (each.skipped_examples() == 0) continue;
    const auto at = static_cast<int64_t>(each.clock());
    positions = BatchesOf(record.spec(), positions, decided).PositionsUpTo(at);
    const int64_t before = positions.empty() ? 0 : positions.back().examples;
    positions.push_back(
        {.clock = at, .examples = before + static_cast<int64_t>(each.skipped_examples())});
  }
  return positions;
}

StepBatches DecidedBatches(const v1::JobRecord& record) {
  return BatchesOf(record.spec(), PositionsOf(record), Decided(record));
}

void SetPositions(const v1::JobRecord& source, uint64_t clock, v1::JobRecord& record) {
  std::vector<DataPosition> positions =
      DecidedBatches(source).PositionsUpTo(static_cast<int64_t>(clock));
  record.set_initial_clock(clock);
  record.set_initial_examples(positions.empty() ? 0 : positions.back().examples);
  if (!positions.empty()) positions.pop_back();
  for (const DataPosition& each : positions) {
    record.add_earlier_clocks(each.clock);
    record.add_earlier_examples(each.examples);
  }
}

}  // namespace muster
