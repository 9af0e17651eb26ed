#include "worker/data/packed_batches_for_testing.h"

#include <algorithm>
#include <random>

namespace muster {

void PackDocuments(Batch& batch, uint32_t seed) {
  std::mt19937 random(seed);
  const int64_t length = static_cast<int64_t>(batch.tokens.size()) / batch.examples;
  batch.positions.clear();
  for (int64_t example = 0; example < batch.examples; ++example) {
    for (int64_t t = 0; t < length;) {
      const auto most = static_cast<uint32_t>(length / 2 + 1);
      const int64_t end = std::min<int64_t>(length, t + 1 + random() % most);
      for (int32_t position = 0; t < end; ++t, ++position) batch.positions.push_back(position);
      batch.labels[example * length + end - 1] = -1;
    }
  }
}

std::vector<Batch> DocumentsAlone(const Batch& batch) {
  std::vector<Batch> documents;
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    if (batch.positions[i] == 0) {
      documents.emplace_back().Clear();
      documents.back().examples = 1;
    }
    documents.back().tokens.push_back(batch.tokens[i]);
    documents.back().labels.push_back(batch.labels[i]);
  }
  return documents;
}

}  // namespace muster
