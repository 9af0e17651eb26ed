#include "worker/data/datasets/mixture_dataset.h"

#include <algorithm>
#include <cmath>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "worker/data/sampling/split.h"

namespace muster {
namespace {

int64_t HeldOut(int64_t examples, double holdout) {
  return std::llround(holdout * static_cast<double>(examples));
}

absl::Status CheckTokenizers(const MixtureDataset::Source& first,
                             const MixtureDataset::Source& other) {
  if (first.sequences->info().tokenizer->fingerprint ==
      other.sequences->info().tokenizer->fingerprint) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the mixture's sources \"", first.name, "\" and \"", other.name,
                   "\" have different tokenizers; make their token files with the same one"));
}

// Appends an example of sequences. One without positions is a document.
void Append(const Batch& from, Batch& to) {
  to.examples += from.examples;
  to.tokens.insert(to.tokens.end(), from.tokens.begin(), from.tokens.end());
  to.labels.insert(to.labels.end(), from.labels.begin(), from.labels.end());
  to.positions.insert(to.positions.end(), from.positions.begin(), from.positions.end());
  for (size_t i = from.positions.size(); i < from.tokens.size(); ++i) {
    to.positions.push_back(static_cast<int32_t>(i));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Dataset>> MixtureDataset::Create(std::vector<Source> sources,
                                                                      double holdout) {
  if (sources.empty()) {
    return absl::InvalidArgumentError("a mixture without sources; name at least one");
  }
  auto dataset = absl::WrapUnique(new MixtureDataset(std::move(sources)));
  MUSTER_RETURN_IF_ERROR(dataset->Divide(holdout));
  return std::unique_ptr<const Dataset>(std::move(dataset));
}

absl::Status MixtureDataset::Divide(double holdout) {
  info_ = sources_[0].sequences->info();
  info_.examples = 0;
  for (const Source& source : sources_) {
    MUSTER_RETURN_IF_ERROR(CheckTokenizers(sources_[0], source));
    info_.examples += source.sequences->info().examples;
    fingerprint_ = MixBits(fingerprint_ ^ MixBits(source.sequences->fingerprint() + 1));
  }
  MUSTER_ASSIGN_OR_RETURN(const Split split, SplitExamples(info_.examples, holdout));
  std::vector<Range> held_out;
  int64_t before = 0;
  int64_t training_before = 0;
  int64_t held_before = split.training;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const int64_t examples = sources_[i].sequences->info().examples;
    const int64_t held = HeldOut(before + examples, holdout) - HeldOut(before, holdout);
    const int64_t training = examples - held;
    if (training == 0 && holdout < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data.holdout is ", holdout,
          ", which leaves nothing to train on of the mixture's source "
          "\"",
          sources_[i].name, "\", which has ", examples, examples == 1 ? " example" : " examples",
          "; hold out less, or give the source more data"));
    }
    info_.sources.push_back({sources_[i].name, training_before, training});
    if (training > 0) ranges_.push_back({training_before, 0, i});
    if (held > 0) held_out.push_back({held_before, training, i});
    before += examples;
    training_before += training;
    held_before += held;
  }
  ranges_.insert(ranges_.end(), held_out.begin(), held_out.end());
  return absl::OkStatus();
}

absl::Status MixtureDataset::Read(absl::Span<const int64_t> indices, Batch& batch) const {
  batch.Clear();
  Batch one;
  bool has_positions = false;
  for (const int64_t index : indices) {
    const Range& range =
        *(std::upper_bound(ranges_.begin(), ranges_.end(), index,
                           [](int64_t wanted, const Range& r) { return wanted < r.first; }) -
          1);
    const int64_t in_source = range.in_source + index - range.first;
    MUSTER_RETURN_IF_ERROR(sources_[range.source].sequences->Read({&in_source, 1}, one));
    has_positions |= !one.positions.empty();
    Append(one, batch);
  }
  if (!has_positions) batch.positions.clear();
  return absl::OkStatus();
}

}  // namespace muster
