#ifndef MUSTER_COMMON_JOB_DATA_SOURCE_ARGUMENTS_H_
#define MUSTER_COMMON_JOB_DATA_SOURCE_ARGUMENTS_H_

#include "common/documents/source_options.h"

namespace muster {

namespace v1 {
class SequenceData;
}  // namespace v1

// Returns how a job has its documents read.
SourceArguments SourceArgumentsOf(const v1::SequenceData& sequences);

// Returns whether tasks make a token file of a source on this machine before they train: the first
// file with content is neither text nor a token file, or it is named as JSON lines are; the path is
// a pattern; or the job says how documents are read. A file that cannot be read needs none.
bool NeedsTokenFile(const v1::SequenceData& sequences);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_DATA_SOURCE_ARGUMENTS_H_
