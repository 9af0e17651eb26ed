#ifndef MUSTER_COMMON_JOB_DATA_DATA_HEAD_H_
#define MUSTER_COMMON_JOB_DATA_DATA_HEAD_H_

#include "absl/status/status.h"
#include "common/plan/size/data_size.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Returns SizeOfData of the job's data, corrected by the beginnings and lengths of its files if
// they are on this machine: the tokenizer's vocabulary, pixels and number of images, examples of a
// text file by the length of its first lines, how a text's first MiB repeats the strings that the
// model looks up, how long the documents of token files are. What cannot be read stays an
// assumption, with the reason.
//
// A task takes a kCheap look at its own data, to keep its memory for other things: kCheap takes a
// transformer's vocabulary from the specification, if that has one, and counts no strings: at the
// most, all of a text's differ.
enum class DataLook { kThorough, kCheap };
DataSize ReadDataHead(const v1::JobSpec& spec, DataLook look = DataLook::kThorough);

// Checks that the data that are on this machine are what the job says: CSV files have its columns
// (CheckCsvHead), texts are texts (CheckIsText), documents of which tasks make token files have a
// tokenizer and are known by the first of them (ForEachDocument). The task that reads the data
// checks all of them; this check says it before a job is submitted. InvalidArgument names the file
// and the column.
absl::Status CheckDataHead(const v1::JobSpec& spec);

// Writes the number of the data's tokens into a transformer's specification that leaves it to them,
// if their tokenizer is on this machine: what tasks would find there. The coordinator, which sees
// no data, then reserves memory for as many; otherwise it has to guess (SizeOfData).
void FillVocabulary(v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_DATA_DATA_HEAD_H_
