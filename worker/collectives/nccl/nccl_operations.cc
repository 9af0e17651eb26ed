#include "worker/collectives/nccl/nccl_operations.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/status_macros.h"
#include "common/collectives/schedule.h"
#include "worker/collectives/nccl/device_reduce.h"
#include "worker/collectives/nccl/device_status.h"

namespace muster {
namespace {

ncclDataType_t NcclType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kF16:
      return ncclFloat16;
    case DType::kBf16:
      return ncclBfloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUint8:
      return ncclUint8;
  }
  return ncclUint8;
}

ncclRedOp_t NcclOp(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kAvg:
      return ncclSum;
    case Reduction::kMin:
      return ncclMin;
    case Reduction::kMax:
      return ncclMax;
    case Reduction::kProd:
      return ncclProd;
    case Reduction::kBitAnd:
    case Reduction::kBitOr:
    case Reduction::kBitXor:
      break;  // Refused by NcclGroup::Begin.
  }
  return ncclSum;
}

// Returns true if NCCL's own reduction keeps Communicator's promise.
bool NcclReduces(const CollectiveCall& call) {
  const bool least_or_greatest =
      call.reduction == Reduction::kMin || call.reduction == Reduction::kMax;
  switch (call.dtype) {
    case DType::kF32:
    case DType::kF64:
      return !least_or_greatest;
    case DType::kF16:
    case DType::kBf16:
      return false;
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUint8:
      return true;
  }
  return false;
}

// Returns each rank's slice of the vector of all ranks.
std::vector<Slice> Slices(absl::Span<const size_t> counts, size_t count, int size) {
  std::vector<Slice> slices(size);
  size_t begin = 0;
  for (int i = 0; i < size; ++i) {
    slices[i] = {begin, counts.empty() ? count : counts[i]};
    begin += slices[i].count;
  }
  return slices;
}

size_t Total(absl::Span<const Slice> slices) { return slices.back().begin + slices.back().count; }

bool Equal(absl::Span<const Slice> slices) {
  return std::all_of(slices.begin(), slices.end(),
                     [&](const Slice& slice) { return slice.count == slices[0].count; });
}

const std::byte* Bytes(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* Bytes(void* data) { return static_cast<std::byte*>(data); }

bool Aligned(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % SizeOf(dtype) == 0;
}

absl::Status Copy(const void* from, void* to, size_t bytes, cudaStream_t stream) {
  if (bytes == 0 || from == to) return absl::OkStatus();
  return CudaStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
                    "copying on the device");
}

// Device memory in the order of a stream: work queued on the stream before the destruction may
// still use the memory.
class Staging {
 public:
  explicit Staging(cudaStream_t stream) : stream_(stream) {}
  ~Staging() {
    if (data_ != nullptr) cudaFreeAsync(data_, stream_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  absl::Status Take(size_t bytes) {
    void* data = nullptr;
    MUSTER_RETURN_IF_ERROR(CudaStatus(cudaMallocAsync(&data, std::max<size_t>(bytes, 1), stream_),
                                      "taking memory for unaligned or in-place data"));
    data_ = Bytes(data);
    return absl::OkStatus();
  }
  std::byte* data() const { return data_; }

 private:
  const cudaStream_t stream_;
  std::byte* data_ = nullptr;
};

// The bytes that go to one rank and come from it.
struct Exchange {
  const std::byte* send = nullptr;
  size_t send_bytes = 0;
  std::byte* receive = nullptr;
  size_t receive_bytes = 0;
};

// Makes all exchanges at once, `with[i]` with rank i; the own part is copied.
absl::Status ExchangeAll(const NcclContext& context, absl::Span<const Exchange> with) {
  const Exchange& own = with[context.rank];
  MUSTER_RETURN_IF_ERROR(Copy(own.send, own.receive, own.send_bytes, context.stream));
  return context.handle->Issue("exchange", [&](ncclComm_t& comm) {
    ncclResult_t result = ncclGroupStart();
    for (int i = 0; i < context.size && result == ncclSuccess; ++i) {
      if (i == context.rank) continue;
      if (with[i].send_bytes > 0) {
        result = ncclSend(with[i].send, with[i].send_bytes, ncclUint8, i, comm, context.stream);
      }
      if ((result == ncclSuccess || result == ncclInProgress) && with[i].receive_bytes > 0) {
        result =
            ncclRecv(with[i].receive, with[i].receive_bytes, ncclUint8, i, comm, context.stream);
      }
      if (result == ncclInProgress) result = ncclSuccess;
    }
    const ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
  });
}

// Reduces, for each rank i, the elements fragments[i] of every rank's `in` in rank order; this
// rank's result goes to `out`, which may be where its own fragment begins in `in`. REQUIRES: W
// fragments of the largest length fit into the scratch.
absl::Status ReduceFragments(const NcclContext& context, const CollectiveCall& call,
                             const std::byte* in, absl::Span<const Slice> fragments,
                             std::byte* out) {
  const size_t element = SizeOf(call.dtype);
  const size_t own = fragments[context.rank].count;
  std::vector<Exchange> with(context.size);
  for (int i = 0; i < context.size; ++i) {
    with[i] = {in + fragments[i].begin * element, fragments[i].count * element,
               context.scratch + i * own * element, own * element};
  }
  MUSTER_RETURN_IF_ERROR(ExchangeAll(context, with));
  const bool aligned = Aligned(out, call.dtype);
  std::byte* const result = aligned ? out : context.scratch;
  MUSTER_RETURN_IF_ERROR(
      CudaStatus(ReduceRowsOnDevice(call.dtype, call.reduction, context.scratch, own, context.size,
                                    own, result, context.stream),
                 "reducing on the device"));
  return Copy(result, out, own * element, context.stream);
}

// Returns the length of a fragment of which W fit into the scratch.
size_t FragmentElements(const NcclContext& context, DType dtype) {
  return context.scratch_bytes / (context.size * SizeOf(dtype));
}

absl::Status AllReduceInFragments(const NcclContext& context, const CollectiveCall& call,
                                  bool to_root) {
  const size_t element = SizeOf(call.dtype);
  const size_t most = FragmentElements(context, call.dtype) * context.size;
  const bool keeps = !to_root || context.rank == call.root;
  Staging results(context.stream);
  if (!keeps) {
    MUSTER_RETURN_IF_ERROR(results.Take(FragmentElements(context, call.dtype) * element));
  }
  for (size_t begin = 0; begin < call.count; begin += most) {
    const size_t count = std::min(most, call.count - begin);
    std::vector<Slice> fragments(context.size);
    for (int i = 0; i < context.size; ++i) {
      fragments[i] = OwnSlice(count, i, context.size);
      fragments[i].begin += begin;
    }
    const Slice& own = fragments[context.rank];
    std::byte* const out = keeps ? Bytes(call.out) + own.begin * element : results.data();
    MUSTER_RETURN_IF_ERROR(ReduceFragments(context, call, Bytes(call.in), fragments, out));
    std::vector<Exchange> with(context.size);
    for (int i = 0; i < context.size; ++i) {
      if (i == context.rank) continue;
      if (!to_root || i == call.root) {
        with[i].send = out;
        with[i].send_bytes = own.count * element;
      }
      if (keeps) {
        with[i].receive = Bytes(call.out) + fragments[i].begin * element;
        with[i].receive_bytes = fragments[i].count * element;
      }
    }
    MUSTER_RETURN_IF_ERROR(ExchangeAll(context, with));
  }
  return absl::OkStatus();
}

absl::Status ReduceScatterInFragments(const NcclContext& context, const CollectiveCall& call,
                                      absl::Span<const Slice> slices) {
  const size_t most = FragmentElements(context, call.dtype);
  size_t longest = 0;
  for (const Slice& slice : slices) longest = std::max(longest, slice.count);
  for (size_t begin = 0; begin < longest; begin += most) {
    std::vector<Slice> fragments(context.size);
    for (int i = 0; i < context.size; ++i) {
      const size_t skipped = std::min(begin, slices[i].count);
      fragments[i] = {slices[i].begin + skipped, std::min(most, slices[i].count - skipped)};
    }
    const size_t done = fragments[context.rank].begin - slices[context.rank].begin;
    MUSTER_RETURN_IF_ERROR(ReduceFragments(context, call, Bytes(call.in), fragments,
                                           Bytes(call.out) + done * SizeOf(call.dtype)));
  }
  return absl::OkStatus();
}

// Runs `reduce(in, out)` with pointers aligned to the type; null `out` stays null.
template <typename Reduce>
absl::Status WithAligned(const NcclContext& context, DType dtype, const void* in, size_t in_count,
                         void* out, size_t out_count, Reduce reduce) {
  Staging staged_in(context.stream);
  Staging staged_out(context.stream);
  const void* from = in;
  void* to = out;
  if (!Aligned(in, dtype)) {
    MUSTER_RETURN_IF_ERROR(staged_in.Take(in_count * SizeOf(dtype)));
    MUSTER_RETURN_IF_ERROR(Copy(in, staged_in.data(), in_count * SizeOf(dtype), context.stream));
    from = staged_in.data();
  }
  if (!Aligned(out, dtype)) {
    MUSTER_RETURN_IF_ERROR(staged_out.Take(out_count * SizeOf(dtype)));
    to = staged_out.data();
  }
  MUSTER_RETURN_IF_ERROR(reduce(from, to));
  return Copy(to, out, out == nullptr ? 0 : out_count * SizeOf(dtype), context.stream);
}

absl::Status DivideAverage(const NcclContext& context, const CollectiveCall& call, void* data,
                           size_t count) {
  if (call.reduction != Reduction::kAvg) return absl::OkStatus();
  return CudaStatus(DivideOnDevice(call.dtype, data, count, context.size, context.stream),
                    "dividing on the device");
}

absl::Status QueueReduction(const NcclContext& context, const CollectiveCall& call) {
  const ncclDataType_t type = NcclType(call.dtype);
  const ncclRedOp_t op = NcclOp(call.reduction);
  if (call.kind == Collective::kReduceScatter) {
    const std::vector<Slice> slices = Slices(call.counts, call.count, context.size);
    if (Total(slices) == 0) return absl::OkStatus();
    if (!NcclReduces(call) || !Equal(slices)) {
      return ReduceScatterInFragments(context, call, slices);
    }
    const size_t own = slices[context.rank].count;
    return WithAligned(
        context, call.dtype, call.in, Total(slices), call.out, own, [&](const void* in, void* out) {
          MUSTER_RETURN_IF_ERROR(context.handle->Issue("reduce_scatter", [&](ncclComm_t& comm) {
            return ncclReduceScatter(in, out, own, type, op, comm, context.stream);
          }));
          return DivideAverage(context, call, out, own);
        });
  }
  if (call.count == 0) return absl::OkStatus();
  const bool to_root = call.kind == Collective::kReduce;
  if (!NcclReduces(call)) return AllReduceInFragments(context, call, to_root);
  void* const result = to_root && context.rank != call.root ? nullptr : call.out;
  return WithAligned(
      context, call.dtype, call.in, call.count, result, call.count, [&](const void* in, void* out) {
        MUSTER_RETURN_IF_ERROR(context.handle->Issue(Name(call.kind), [&](ncclComm_t& comm) {
          if (to_root) {
            return ncclReduce(in, out, call.count, type, op, call.root, comm, context.stream);
          }
          return ncclAllReduce(in, out, call.count, type, op, comm, context.stream);
        }));
        if (out == nullptr) return absl::OkStatus();
        return DivideAverage(context, call, out, call.count);
      });
}

absl::Status QueueAllGather(const NcclContext& context, const CollectiveCall& call) {
  const size_t element = SizeOf(call.dtype);
  const std::vector<Slice> slices = Slices(call.counts, call.count, context.size);
  if (Total(slices) == 0) return absl::OkStatus();
  if (Equal(slices)) {
    return context.handle->Issue("all_gather", [&](ncclComm_t& comm) {
      return ncclAllGather(call.in, call.out, slices[0].count * element, ncclUint8, comm,
                           context.stream);
    });
  }
  std::vector<Exchange> with(context.size);
  for (int i = 0; i < context.size; ++i) {
    with[i] = {Bytes(call.in), slices[context.rank].count * element,
               Bytes(call.out) + slices[i].begin * element, slices[i].count * element};
  }
  return ExchangeAll(context, with);
}

absl::Status QueueAllToAll(const NcclContext& context, const CollectiveCall& call) {
  const size_t element = SizeOf(call.dtype);
  const std::vector<Slice> sent = Slices(call.send_counts, call.count, context.size);
  const std::vector<Slice> received = Slices(call.counts, call.count, context.size);
  const std::byte* in = Bytes(call.in);
  Staging staged(context.stream);
  if (call.in == call.out && Total(sent) > 0) {
    MUSTER_RETURN_IF_ERROR(staged.Take(Total(sent) * element));
    MUSTER_RETURN_IF_ERROR(Copy(in, staged.data(), Total(sent) * element, context.stream));
    in = staged.data();
  }
  std::vector<Exchange> with(context.size);
  for (int i = 0; i < context.size; ++i) {
    with[i] = {in + sent[i].begin * element, sent[i].count * element,
               Bytes(call.out) + received[i].begin * element, received[i].count * element};
  }
  return ExchangeAll(context, with);
}

// Queues a call of a group of one: its input is its output.
absl::Status QueueAlone(const NcclContext& context, const CollectiveCall& call) {
  const size_t count = call.counts.empty() ? call.count : call.counts[0];
  if (call.kind == Collective::kBarrier) return absl::OkStatus();
  return Copy(call.in, call.out, count * SizeOf(call.dtype), context.stream);
}

}  // namespace

absl::Status QueueCall(const NcclContext& context, const CollectiveCall& call) {
  if (context.size == 1) return QueueAlone(context, call);
  const size_t bytes = call.count * SizeOf(call.dtype);
  switch (call.kind) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kReduce:
      return QueueReduction(context, call);
    case Collective::kAllGather:
      return QueueAllGather(context, call);
    case Collective::kAllToAll:
      return QueueAllToAll(context, call);
    case Collective::kBroadcast:
      if (bytes == 0) return absl::OkStatus();
      return context.handle->Issue("broadcast", [&](ncclComm_t& comm) {
        return ncclBroadcast(call.in, call.out, bytes, ncclUint8, call.root, comm, context.stream);
      });
    case Collective::kSend:
    case Collective::kReceive:
      return QueueMessages(context, {&call, 1});
    case Collective::kBarrier:
      return context.handle->Issue("barrier", [&](ncclComm_t& comm) {
        return ncclAllReduce(context.scratch, context.scratch, 1, ncclUint8, ncclMax, comm,
                             context.stream);
      });
  }
  return absl::OkStatus();
}

absl::Status QueueMessages(const NcclContext& context, absl::Span<const CollectiveCall> messages) {
  const auto is_empty = [](const CollectiveCall& message) { return message.count == 0; };
  if (std::all_of(messages.begin(), messages.end(), is_empty)) return absl::OkStatus();
  return context.handle->Issue("messages", [&](ncclComm_t& comm) {
    ncclResult_t result = ncclGroupStart();
    for (const CollectiveCall& message : messages) {
      const size_t bytes = message.count * SizeOf(message.dtype);
      if (bytes == 0 || result != ncclSuccess) continue;
      result = message.kind == Collective::kSend
                   ? ncclSend(message.in, bytes, ncclUint8, message.root, comm, context.stream)
                   : ncclRecv(message.out, bytes, ncclUint8, message.root, comm, context.stream);
      if (result == ncclInProgress) result = ncclSuccess;
    }
    const ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
  });
}

CollectiveTraffic TrafficOf(const CollectiveCall& call, int rank, int size) {
  const uint64_t element = SizeOf(call.dtype);
  const uint64_t bytes = call.count * element;
  const uint64_t others = size - 1;
  switch (call.kind) {
    case Collective::kAllReduce: {
      const uint64_t own = OwnSlice(call.count, rank, size).count * element;
      // Every part but the own is sent once to be reduced; the own result then goes to all.
      return {bytes - own + others * own, bytes - own + others * own};
    }
    case Collective::kReduceScatter:
    case Collective::kAllGather: {
      const std::vector<Slice> slices = Slices(call.counts, call.count, size);
      const uint64_t own = slices[rank].count * element;
      const uint64_t rest = Total(slices) * element - own;
      if (call.kind == Collective::kReduceScatter) return {rest, others * own};
      return {others * own, rest};
    }
    case Collective::kBroadcast:
      // A chain from the root.
      return {rank == (call.root + size - 1) % size ? 0 : bytes, rank == call.root ? 0 : bytes};
    case Collective::kReduce:
      return {rank == call.root ? 0 : bytes, rank == (call.root + 1) % size ? 0 : bytes};
    case Collective::kAllToAll: {
      const std::vector<Slice> sent = Slices(call.send_counts, call.count, size);
      const std::vector<Slice> received = Slices(call.counts, call.count, size);
      return {(Total(sent) - sent[rank].count) * element,
              (Total(received) - received[rank].count) * element};
    }
    case Collective::kSend:
      return {bytes, 0};
    case Collective::kReceive:
      return {0, bytes};
    case Collective::kBarrier:
      return {0, 0};
  }
  return {0, 0};
}

}  // namespace muster
