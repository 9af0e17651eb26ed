#ifndef MUSTER_CLIENT_PLAN_DATA_HEAD_H_
#define MUSTER_CLIENT_PLAN_DATA_HEAD_H_

#include "common/plan/data_size.h"

namespace muster {

namespace v1 {
class DataSpec;
}  // namespace v1

// SizeOfData, corrected by what the beginnings and lengths of the data's files say where they are
// on this machine: the tokenizer's vocabulary, pixels and number of images, examples of a text file
// by the length of its first lines. What cannot be read stays an assumption, with the reason.
DataSize ReadDataHead(const v1::DataSpec& data);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_DATA_HEAD_H_
