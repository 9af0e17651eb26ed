#include "common/job/sequence_sources.h"

#include "proto/job.pb.h"

namespace muster {

bool HasSequences(const v1::DataSpec& data) { return data.has_sequences() || data.has_mixture(); }

std::vector<const v1::SequenceData*> SequenceSources(const v1::DataSpec& data) {
  if (data.has_sequences()) return {&data.sequences()};
  std::vector<const v1::SequenceData*> sources;
  for (const v1::MixtureSource& source : data.mixture().sources()) {
    sources.push_back(&source.sequences());
  }
  return sources;
}

std::vector<v1::SequenceData*> MutableSequenceSources(v1::DataSpec& data) {
  if (data.has_sequences()) return {data.mutable_sequences()};
  std::vector<v1::SequenceData*> sources;
  if (!data.has_mixture()) return sources;
  for (v1::MixtureSource& source : *data.mutable_mixture()->mutable_sources()) {
    sources.push_back(source.mutable_sequences());
  }
  return sources;
}

}  // namespace muster
