#ifndef MUSTER_WORKER_DATA_PACKED_BATCHES_FOR_TESTING_H_
#define MUSTER_WORKER_DATA_PACKED_BATCHES_FOR_TESTING_H_

#include <cstdint>
#include <vector>

#include "worker/data/batch.h"

namespace muster {

// Divides a batch's sequences into documents of lengths by chance: sets the positions, and takes
// the labels of documents' last tokens.
void PackDocuments(Batch& batch, uint32_t seed);

// Returns each document of a batch as a batch of one sequence, without positions.
std::vector<Batch> DocumentsAlone(const Batch& batch);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_PACKED_BATCHES_FOR_TESTING_H_
