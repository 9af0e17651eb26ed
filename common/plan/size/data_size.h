#ifndef MUSTER_COMMON_PLAN_SIZE_DATA_SIZE_H_
#define MUSTER_COMMON_PLAN_SIZE_DATA_SIZE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster {

namespace v1 {
class DataSpec;
}  // namespace v1

// What of a job's data its memory depends on.
struct DataSize {
  // 0: not known.
  uint64_t examples = 0;
  // Of the validation data; 0: not known, or there are none.
  uint64_t validation_examples = 0;
  uint64_t dense_features = 0;
  bool sparse = false;
  // Categorical fields; 0 with other sparse features.
  uint64_t fields = 0;
  // Distinct values of a field, drawn by synthetic_clicks' power law; 0: not known.
  uint64_t cardinality = 0;
  // Sparse keys of one example.
  uint64_t keys = 0;
  // Distinct keys there may be at most.
  uint64_t rows = 0;
  // Values of a token; 0: there are none.
  uint64_t vocabulary = 0;
  // What `vocabulary` was taken from, a clause for people, where the data may have another one; it
  // matters where the model leaves its own to them. Empty: it is known.
  std::string vocabulary_assumption;
  // How strings of 1, 2, … bytes repeat themselves in the text, as far as it was looked at: so many
  // different strings (second) come so many times (first). Empty: not known.
  std::vector<std::map<uint64_t, uint64_t>> repeats;
  // The mean, over the tokens of all sequences, of the length of the token's document within its
  // sequence: so many tokens attention looks at where it stays within documents. 0: not known, or
  // it does not.
  double document_tokens = 0;
  // The share of sequences that is padding.
  double padding = 0;
  // Bytes that each task keeps of the data while it trains.
  uint64_t bytes = 0;
  // What was taken for granted because the data was not looked at, each a clause for people.
  std::vector<std::string> assumptions;
};

// Rows of a field or order that nothing bounds.
inline constexpr uint64_t kUnknownRows = 1 << 18;
// Values of a byte, which is the token of a text without a tokenizer.
inline constexpr uint64_t kByteValues = 256;

// Out of the specification alone. Images are taken to have 784 pixels, tokens of a tokenizer's file
// GPT-2's 50,257 values, sequences without a tokenizer to be text, of bytes, a libsvm example 64
// features, a libffm example 39 fields.
DataSize SizeOfData(const v1::DataSpec& data);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_SIZE_DATA_SIZE_H_
