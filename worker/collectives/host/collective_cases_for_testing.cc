#include "worker/collectives/host/collective_cases_for_testing.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/tensor/float16.h"

namespace muster {
namespace {

// Bytes around an output that nobody may write.
constexpr size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

// Period, times the number of ranks, after which inputs and so results repeat.
constexpr size_t kPeriod = 8;

// Returns element `index` of rank `rank`'s input, small enough for every type to add exactly: sums
// stay below 256, and products are powers of two.
int InputAt(const CollectiveCase& c, int rank, int size, size_t index) {
  if (c.reduction == Reduction::kProd && Reduces(c.kind)) {
    return (rank * 3 + index + c.seed) % 4 == 0 ? 2 : 1;
  }
  return static_cast<int>((index * 5 + c.seed) % 8) + static_cast<int>((rank + index) % size);
}

// Returns the exact result for element `index`.
double ReducedAt(const CollectiveCase& c, int size, size_t index) {
  const double base = static_cast<double>((index * 5 + c.seed) % 8);
  switch (c.reduction) {
    case Reduction::kSum:
      return size * base + size * (size - 1) / 2;
    case Reduction::kAvg:
      return base + (size - 1) / 2.0;
    case Reduction::kMin:
      return base;
    case Reduction::kMax:
      return base + size - 1;
    case Reduction::kBitAnd:
    case Reduction::kBitOr:
    case Reduction::kBitXor: {
      int bits = InputAt(c, 0, size, index);
      for (int rank = 1; rank < size; ++rank) {
        const int other = InputAt(c, rank, size, index);
        if (c.reduction == Reduction::kBitAnd) bits &= other;
        if (c.reduction == Reduction::kBitOr) bits |= other;
        if (c.reduction == Reduction::kBitXor) bits ^= other;
      }
      return bits;
    }
    case Reduction::kProd:
      break;
  }
  double product = 1;
  for (int rank = 0; rank < size; ++rank) product *= InputAt(c, rank, size, index);
  return product;
}

template <typename T>
void Store(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof(T));
}

// Integers drop the fraction, and wrap.
void Put(DType dtype, double value, std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return Store(static_cast<float>(value), at);
    case DType::kF64:
      return Store(value, at);
    case DType::kF16:
      return Store(F16OfF32(static_cast<float>(value)), at);
    case DType::kBf16:
      return Store(Bf16OfF32(static_cast<float>(value)), at);
    case DType::kInt32:
      return Store(static_cast<int32_t>(value), at);
    case DType::kInt64:
      return Store(static_cast<int64_t>(value), at);
    case DType::kUint8:
      return Store(static_cast<uint8_t>(static_cast<int64_t>(value)), at);
  }
}

// Sets element i of `count` from `to` on to value(i), which repeats after `period`.
template <typename Value>
void Fill(DType dtype, size_t count, size_t period, const Value& value, std::byte* to) {
  const size_t element = SizeOf(dtype);
  size_t filled = std::min(count, period);
  for (size_t i = 0; i < filled; ++i) Put(dtype, value(i), to + i * element);
  while (filled < count) {
    const size_t more = std::min(filled, count - filled);
    std::memcpy(to + filled * element, to, more * element);
    filled += more;
  }
}

size_t Sum(const std::vector<size_t>& counts, int until) {
  return std::accumulate(counts.begin(), counts.begin() + until, size_t{0});
}

}  // namespace

bool Reduces(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
         kind == Collective::kReduce;
}

std::string CollectiveCase::ToString() const {
  return absl::StrCat(Name(kind), " ", Name(dtype), " ", Name(reduction), " x ", count,
                      unequal ? " unequal" : "", in_place ? " in place" : "",
                      misaligned ? " misaligned" : "", deterministic ? " deterministic" : "",
                      " root ", root, " seed ", seed);
}

// All-to-all: what goes from i to j depends on both, so that what a rank sends differs from what it
// receives.
std::vector<size_t> CaseRunner::Counts(bool of_sender) const {
  std::vector<size_t> counts(size_, case_.count);
  if (!case_.unequal) return counts;
  for (int i = 0; i < size_; ++i) {
    const bool pairs = case_.kind == Collective::kAllToAll;
    const int which = !pairs ? i : of_sender ? rank_ + 2 * i : i + 2 * rank_;
    counts[i] = case_.count * ((which + case_.seed) % 3) / 2;
  }
  return counts;
}

CollectiveCall CaseRunner::Prepare(const CollectiveCase& c, std::byte* memory) {
  case_ = c;
  counts_ = Counts(false);
  send_counts_ = Counts(true);
  const size_t element = SizeOf(c.dtype);
  const size_t all = Sum(counts_, size_);
  const size_t all_sent = Sum(send_counts_, size_);
  const size_t before = Sum(counts_, rank_);
  size_t in = c.count, out = c.count;
  size_t in_begin = 0, out_begin = 0;
  switch (c.kind) {
    case Collective::kReduceScatter:
      in = all;
      out = counts_[rank_];
      out_begin = before;
      break;
    case Collective::kAllGather:
      in = counts_[rank_];
      out = all;
      in_begin = before;
      break;
    case Collective::kAllToAll:
      in = all_sent;
      out = all;
      break;
    case Collective::kBarrier:
      in = out = 0;
      break;
    default:
      break;
  }
  if (!c.in_place) in_begin = out_begin = 0;
  const size_t room =
      (std::max(in, out) + std::max(in_begin, out_begin)) * element + 2 * kGuard + 8;
  if (in_.size() < room) in_.resize(room);
  if (out_.size() < room) out_.resize(room);
  std::byte* in_memory = in_.data() + kGuard + (c.misaligned ? 1 : 0);
  std::byte* out_memory = out_.data() + kGuard + (c.misaligned ? 3 : 0);
  guarded_ = memory == nullptr;
  if (memory != nullptr) {
    in_memory = out_memory = memory;
  } else if (c.in_place) {
    in_memory = out_memory;
  }
  in_memory += in_begin * element;
  out_memory += out_begin * element;
  if (guarded_) std::fill(out_.begin(), out_.begin() + room, kGuardByte);

  // Slices of an all-gather or all-to-all differ by whom they come from and go to.
  const size_t period = kPeriod * size_;
  const auto input = [&](size_t i) { return InputAt(c, rank_, size_, i); };
  Fill(c.dtype, in, period, input, in_memory);
  expected_.resize(out * element);
  const auto expect = [&](size_t begin, size_t count, const auto& value) {
    Fill(c.dtype, count, period, value, expected_.data() + begin * element);
  };
  const bool only_root = c.kind == Collective::kReduce && c.root != rank_;
  if (only_root) expected_.clear();
  if (c.kind == Collective::kAllGather || c.kind == Collective::kAllToAll) {
    size_t at = 0;
    for (int from = 0; from < size_; ++from) {
      size_t first = 0;
      if (c.kind == Collective::kAllToAll) {
        const CaseRunner sender = [&] {
          CaseRunner other(from, size_);
          other.case_ = c;
          return other;
        }();
        first = Sum(sender.Counts(true), rank_);
      }
      expect(at, counts_[from], [&](size_t i) { return InputAt(c, from, size_, first + i); });
      at += counts_[from];
    }
  } else if (c.kind == Collective::kBroadcast) {
    expect(0, out, [&](size_t i) { return InputAt(c, c.root, size_, i); });
  } else if (!only_root) {
    const size_t first = c.kind == Collective::kReduceScatter ? before : 0;
    expect(0, out, [&](size_t i) { return ReducedAt(c, size_, first + i); });
  }
  output_ = out_memory;

  CollectiveCall call;
  call.kind = c.kind;
  call.dtype = c.dtype;
  call.reduction = c.reduction;
  call.in = in_memory;
  call.out = out_memory;
  call.count = c.count;
  if (c.unequal) {
    call.counts = counts_;
    if (c.kind == Collective::kAllToAll) call.send_counts = send_counts_;
  }
  call.root = c.root;
  call.deterministic = c.deterministic;
  call.label = "a case";
  return call;
}

std::string CaseRunner::Check() const {
  const size_t element = SizeOf(case_.dtype);
  if (!expected_.empty() && std::memcmp(output_, expected_.data(), expected_.size()) != 0) {
    size_t at = 0;
    while (output_[at] == expected_[at]) ++at;
    return absl::StrCat(case_.ToString(), " on rank ", rank_, " of ", size_, ": element ",
                        at / element, " is wrong");
  }
  if (!guarded_ || case_.in_place) return "";
  for (const std::byte* at = out_.data(); at < output_; ++at) {
    if (*at != kGuardByte) return case_.ToString() + ": bytes before the output were written";
  }
  for (size_t i = 0; i < kGuard; ++i) {
    if (output_[expected_.size() + i] != kGuardByte) {
      return case_.ToString() + ": bytes behind the output were written";
    }
  }
  return "";
}

}  // namespace muster
