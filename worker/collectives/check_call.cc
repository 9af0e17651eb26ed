#include "worker/collectives/check_call.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

absl::Status Wrong(const CollectiveCall& call, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(Name(call.kind), " ", Name(call.dtype),
                                                 call.label.empty() ? "" : " \"", call.label,
                                                 call.label.empty() ? "" : "\"", ": ", what));
}

// Returns the number of elements before slice `slice`; for slice == size, of all slices.
absl::StatusOr<size_t> Before(const CollectiveCall& call, absl::Span<const size_t> counts,
                              int slice) {
  const size_t limit = std::numeric_limits<ptrdiff_t>::max() / SizeOf(call.dtype);
  size_t sum = 0;
  for (int i = 0; i < slice; ++i) {
    const size_t count = counts.empty() ? call.count : counts[i];
    if (count > limit - sum) return Wrong(call, "the counts exceed what memory can hold");
    sum += count;
  }
  return sum;
}

// Returns true if the buffers overlap without being the same. They are the same if `out` begins
// `offset` bytes after `in`.
bool Overlap(const void* in, size_t in_bytes, const void* out, size_t out_bytes, ptrdiff_t offset) {
  if (in_bytes == 0 || out_bytes == 0) return false;
  const auto a = reinterpret_cast<uintptr_t>(in);
  const auto b = reinterpret_cast<uintptr_t>(out);
  if (b == a + offset) return false;
  return a < b + out_bytes && b < a + in_bytes;
}

bool TakesCounts(Collective kind) {
  return kind == Collective::kReduceScatter || kind == Collective::kAllGather ||
         kind == Collective::kAllToAll;
}

bool HasRoot(Collective kind) {
  return kind == Collective::kBroadcast || kind == Collective::kReduce ||
         kind == Collective::kSend || kind == Collective::kReceive;
}

bool IsInteger(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kUint8;
}

}  // namespace

absl::Status CheckCall(const CollectiveCall& call, int rank, int size) {
  if (call.kind < Collective::kAllReduce || call.kind > Collective::kBarrier) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind is ", static_cast<int>(call.kind), ", which is no collective"));
  }
  if (SizeOf(call.dtype) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(Name(call.kind), ": dtype is ",
                                                   static_cast<int>(call.dtype),
                                                   ", which is no type of elements"));
  }
  if (call.reduction < Reduction::kSum || call.reduction > Reduction::kBitXor) {
    return Wrong(call, absl::StrCat("reduction is ", static_cast<int>(call.reduction),
                                    ", which is no reduction"));
  }
  if (IsBitwise(call.reduction) && !IsInteger(call.dtype)) {
    return Wrong(call,
                 absl::StrCat("reduction is ", Name(call.reduction), ", which only integers have"));
  }
  if (call.timeout <= absl::ZeroDuration()) {
    return Wrong(call, absl::StrCat("timeout is ", absl::FormatDuration(call.timeout),
                                    "; it must be positive"));
  }
  if (call.kind == Collective::kBarrier) return absl::OkStatus();
  const bool any = call.kind == Collective::kReceive && call.root == kAnyRank;
  if (HasRoot(call.kind) && !any && (call.root < 0 || call.root >= size)) {
    return Wrong(call, absl::StrCat("root is ", call.root, " in a group of ", size, " ranks"));
  }
  const bool message = call.kind == Collective::kSend || call.kind == Collective::kReceive;
  if (message && call.root == rank) {
    return Wrong(call, absl::StrCat("root is ", call.root, ", which is this rank itself"));
  }
  if (TakesCounts(call.kind)) {
    if (!call.counts.empty() && call.counts.size() != size) {
      return Wrong(call, absl::StrCat("counts has ", call.counts.size(), " entries; it must have ",
                                      "none, or one for each of ", size, " ranks"));
    }
    if (!call.send_counts.empty() && call.send_counts.size() != size) {
      return Wrong(call, absl::StrCat("send_counts has ", call.send_counts.size(), " entries; it ",
                                      "must have none, or one for each of ", size, " ranks"));
    }
  }
  // Elements of `in` and `out`, and where in the longer of them the shorter lies in place.
  const bool counts = TakesCounts(call.kind);
  MUSTER_ASSIGN_OR_RETURN(const size_t all, Before(call, call.counts, counts ? size : 0));
  MUSTER_ASSIGN_OR_RETURN(const size_t before, Before(call, call.counts, counts ? rank : 0));
  MUSTER_ASSIGN_OR_RETURN(const size_t sent, Before(call, call.send_counts, counts ? size : 0));
  MUSTER_RETURN_IF_ERROR(Before(call, {}, 1).status());
  const size_t own = call.counts.empty() || !counts ? call.count : call.counts[rank];
  const auto element = static_cast<ptrdiff_t>(SizeOf(call.dtype));
  const bool is_root = call.root == rank;
  size_t in = 0, out = 0;
  ptrdiff_t offset = 0;
  switch (call.kind) {
    case Collective::kAllReduce:
      in = out = own;
      break;
    case Collective::kReduceScatter:
      in = all;
      out = own;
      offset = before * element;
      break;
    case Collective::kAllGather:
      in = own;
      out = all;
      offset = -static_cast<ptrdiff_t>(before) * element;
      break;
    case Collective::kBroadcast:
      in = is_root ? own : 0;
      out = own;
      break;
    case Collective::kReduce:
      in = own;
      out = is_root ? own : 0;
      break;
    case Collective::kAllToAll: {
      const size_t keeps = call.send_counts.empty() ? call.count : call.send_counts[rank];
      const size_t expects = call.counts.empty() ? call.count : call.counts[rank];
      if (keeps != expects) {
        return Wrong(call, absl::StrCat("this rank sends itself ", keeps, " elements and expects ",
                                        expects, " of them"));
      }
      in = sent;
      out = all;
      break;
    }
    case Collective::kSend:
      in = own;
      break;
    case Collective::kReceive:
      out = own;
      break;
    case Collective::kBarrier:
      break;
  }
  if (in > 0 && call.in == nullptr) {
    return Wrong(call, absl::StrCat("`in` is null where ", in, " elements are to be read"));
  }
  if (out > 0 && call.out == nullptr) {
    return Wrong(call, absl::StrCat("`out` is null where ", out, " elements are to be written"));
  }
  if (Overlap(call.in, in * element, call.out, out * element, offset)) {
    return Wrong(call, "`in` and `out` overlap; they must be the same memory or lie apart");
  }
  return absl::OkStatus();
}

}  // namespace muster
