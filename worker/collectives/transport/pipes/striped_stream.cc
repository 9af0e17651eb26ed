#include "worker/collectives/transport/pipes/striped_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// Returns the bytes from `position` to the end of the stripe.
size_t LeftAt(uint64_t position) {
  return kStripeBytes - static_cast<size_t>(position % kStripeBytes);
}

}  // namespace

StripedStream::StripedStream(std::vector<std::unique_ptr<ByteStream>> connections)
    : connections_(std::move(connections)),
      name_(absl::StrCat(connections_[0]->name(), " x ", connections_.size())) {}

void StripedStream::Break(uint64_t position, const absl::Status& status) {
  broken_ = absl::Status(status.code(), absl::StrCat("connection ", IndexAt(position) + 1, " of ",
                                                     connections_.size(), ": ", status.message()));
}

absl::StatusOr<size_t> StripedStream::Write(absl::Span<const std::byte> bytes, Push push) {
  MUSTER_RETURN_IF_ERROR(broken_);
  size_t written = 0;
  while (written < bytes.size()) {
    // A connection is offered only its own bytes, because it may begin with all that it is offered.
    const auto fragment = bytes.subspan(written, LeftAt(written_));
    const bool ends_stripe = fragment.size() == LeftAt(written_);
    // The bytes after a stripe's end go by another connection.
    const absl::StatusOr<size_t> taken =
        At(written_).Write(fragment, ends_stripe ? Push::kNow : push);
    if (!taken.ok()) {
      Break(written_, taken.status());
      break;
    }
    written += *taken;
    written_ += *taken;
    if (*taken < fragment.size()) break;
  }
  if (written == 0) MUSTER_RETURN_IF_ERROR(broken_);
  return written;
}

absl::Status StripedStream::Flush() {
  MUSTER_RETURN_IF_ERROR(broken_);
  // The others hold nothing back: each has sent the end of its last stripe at once.
  if (absl::Status status = At(written_).Flush(); !status.ok()) Break(written_, status);
  return broken_;
}

absl::StatusOr<size_t> StripedStream::Read(absl::Span<std::byte> out) {
  MUSTER_RETURN_IF_ERROR(broken_);
  size_t read = 0;
  while (read < out.size()) {
    const auto place = out.subspan(read, LeftAt(read_));
    const absl::StatusOr<size_t> got = At(read_).Read(place);
    if (!got.ok()) {
      Break(read_, got.status());
      break;
    }
    read += *got;
    read_ += *got;
    if (*got < place.size()) break;
  }
  if (read == 0) MUSTER_RETURN_IF_ERROR(broken_);
  return read;
}

}  // namespace muster
