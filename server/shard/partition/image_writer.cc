#include "server/shard/partition/image_writer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/partition_state.pb.h"

namespace muster {
namespace {

// Batches that go by before an image that found the disk full is tried again.
constexpr int kMostWaits = 64;

}  // namespace

absl::Status ImageWriter::Write(PartitionJournal::Extent extent) {
  return parts_.journal->WriteImage(parts_.tables, parts_.state.Save(parts_.journal->last_lsn()),
                                    extent, [this] { return !parts_.health.Pass("image"); });
}

bool ImageWriter::Due() {
  // Gradients that wait for their clock are in the log alone.
  if (parts_.journal == nullptr || !parts_.updater.sums_empty() || !parts_.health.ok()) {
    return false;
  }
  // An image is as many bytes to write as its blocks have, and pushes wait for it: half as many as
  // of the log, at most.
  const uint64_t log_bytes = std::max(parts_.log_bytes, 2 * parts_.tables.dense.value_bytes());
  if (parts_.journal->bytes_since_image() <= log_bytes) return false;
  if (waits_ == 0) return true;
  --waits_;
  return false;
}

void ImageWriter::WriteDue() {
  if (parts_.health.crashed() || !parts_.health.ok() || !parts_.updater.sums_empty()) return;
  const absl::Status status = Write(PartitionJournal::Extent::kChanged);
  if (absl::IsResourceExhausted(status)) {
    // The log holds everything; as long as it can grow, nothing is refused.
    waits_ = next_wait_;
    next_wait_ = std::min(2 * next_wait_, kMostWaits);
    return;
  }
  next_wait_ = 1;
  if (status.ok()) return;
  // FAILED_PRECONDITION, which a failed log returns, would look like a mistake of the caller.
  parts_.health.Close(absl::Status(
      absl::IsDataLoss(status) ? status.code() : absl::StatusCode::kUnavailable,
      absl::StrCat("partition ", parts_.tables.partition, " of job ", parts_.tables.job->job_id(),
                   " cannot store its values: ", status.message())));
}

}  // namespace muster
