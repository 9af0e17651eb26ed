#ifndef MUSTER_COMMON_JOB_SEQUENCE_SOURCES_H_
#define MUSTER_COMMON_JOB_SEQUENCE_SOURCES_H_

#include <vector>

namespace muster {

namespace v1 {
class DataSpec;
class SequenceData;
}  // namespace v1

// Returns true if the data are sequences of tokens, of one source or of several.
bool HasSequences(const v1::DataSpec& data);

// Return the sequences that the data name, in order: one, those of each source of a mixture, or
// none if another reader reads the data. They point into `data`.
std::vector<const v1::SequenceData*> SequenceSources(const v1::DataSpec& data);
std::vector<v1::SequenceData*> MutableSequenceSources(v1::DataSpec& data);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_SEQUENCE_SOURCES_H_
