#include "common/plan/size/data_size.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/job/sequence_sources.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr uint64_t kImagePixels = 784;
constexpr uint64_t kLibsvmKeys = 64;
constexpr uint64_t kLibffmFields = 39;
constexpr uint64_t kGpt2Tokens = 50257;

}  // namespace

DataSize SizeOfData(const v1::DataSpec& data) {
  DataSize size;
  switch (data.reader_case()) {
    case v1::DataSpec::kIdx:
      size.dense_features = kImagePixels;
      size.assumptions.push_back("images have 784 pixels");
      break;
    case v1::DataSpec::kLibsvm:
      size.sparse = true;
      size.rows = kUnknownRows;
      size.keys = kLibsvmKeys;
      size.assumptions.push_back("an example has 64 features, of at most 262,144");
      break;
    case v1::DataSpec::kLibffm:
      size.fields = kLibffmFields;
      size.sparse = true;
      size.rows = size.fields * kUnknownRows;
      size.keys = size.fields;
      size.assumptions.push_back("an example has 39 fields, of at most 262,144 features each");
      break;
    case v1::DataSpec::kCsv:
      size.fields = data.csv().categorical_size();
      size.sparse = size.fields > 0;
      size.dense_features = data.csv().numeric_size();
      size.keys = size.fields;
      size.rows = size.fields * kUnknownRows;
      if (size.sparse) size.assumptions.push_back("a column has at most 262,144 values");
      break;
    case v1::DataSpec::kSyntheticClicks: {
      const v1::SyntheticClicksData& clicks = data.synthetic_clicks();
      size.examples = clicks.examples();
      size.fields = clicks.fields();
      size.sparse = size.fields > 0;
      size.dense_features = clicks.numeric();
      size.cardinality = clicks.cardinality();
      size.keys = size.fields;
      size.rows = size.fields * std::min<uint64_t>(clicks.cardinality(), uint64_t{1} << 40);
      break;
    }
    case v1::DataSpec::kSyntheticClassification: {
      const v1::SyntheticClassificationData& clusters = data.synthetic_classification();
      size.examples = clusters.examples();
      size.dense_features = clusters.features();
      size.bytes = uint64_t{4} * clusters.features() * clusters.classes();
      break;
    }
    case v1::DataSpec::kText:
      size.vocabulary = kByteValues;
      break;
    case v1::DataSpec::kSequences:
    case v1::DataSpec::kMixture: {
      size.vocabulary = kByteValues;
      const std::vector<const v1::SequenceData*> sources = SequenceSources(data);
      const std::string tokenizer = sources.empty() ? "" : sources[0]->tokenizer();
      if (tokenizer == "bytes") break;
      if (tokenizer.empty()) {
        size.vocabulary_assumption = "tokens are the 256 bytes of text, not those of a token file";
        break;
      }
      size.vocabulary = kGpt2Tokens;
      size.vocabulary_assumption = "the tokenizer has GPT-2's 50,257 tokens";
      break;
    }
    case v1::DataSpec::READER_NOT_SET:
      break;
  }
  return size;
}

}  // namespace muster
