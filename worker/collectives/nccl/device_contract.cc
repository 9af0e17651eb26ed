#include "worker/collectives/nccl/device_contract.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/collectives/schedule.h"
#include "worker/collectives/nccl/device_contract_values.h"
#include "worker/collectives/nccl/device_memory_for_testing.h"

namespace muster {
namespace {

using Leaves = DeviceContract::Leaves;
using Calls = DeviceContract::Calls;

constexpr DType kTypes[] = {DType::kF32,   DType::kF64,   DType::kF16,  DType::kBf16,
                            DType::kInt32, DType::kInt64, DType::kUint8};
constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kAvg, Reduction::kMin,
                                     Reduction::kMax, Reduction::kProd};
constexpr size_t kSizes[] = {0, 1, 2, 3, 7, 1023};

// Checks one reducing call on this rank. `call` has kind, dtype, reduction, count or counts, root.
absl::Status CheckReduction(Communicator& group, CollectiveCall call, bool in_place,
                            size_t offset) {
  const std::string what = Describe(call, in_place, offset);
  const int rank = group.rank();
  const bool scatters = call.kind == Collective::kReduceScatter;
  size_t begin = 0;
  size_t total = scatters ? 0 : call.count;
  size_t own = call.count;
  if (scatters) {
    for (int i = 0; i < group.size(); ++i) {
      const size_t count = call.counts.empty() ? call.count : call.counts[i];
      if (i < rank) begin += count;
      if (i == rank) own = count;
      total += count;
    }
  }
  const size_t element = SizeOf(call.dtype);
  std::vector<HostBytes> inputs;
  for (int r = 0; r < group.size(); ++r) {
    inputs.push_back(ValuesOf(r, total, call.dtype, 1));
  }
  DeviceMemory in(total * element, offset);
  DeviceMemory out(own * element, offset);
  if (!in.ok() || !out.ok()) return Wrong("no device memory");
  in.Write(inputs[rank]);
  call.in = in.data();
  call.out = in_place ? in.data() + begin * element : out.data();
  MUSTER_RETURN_IF_ERROR(group.Run(call));
  if (call.kind == Collective::kReduce && rank != call.root) return absl::OkStatus();
  const HostBytes all = Reduced(call.dtype, call.reduction, inputs);
  const HostBytes want(all.begin() + begin * element, all.begin() + (begin + own) * element);
  const HostBytes got =
      in_place ? in.Read(begin * element, own * element) : out.Read(0, own * element);
  MUSTER_RETURN_IF_ERROR(Compare(got, want, what));
  if (in_place) return absl::OkStatus();
  return Compare(in.Read(0, total * element), inputs[rank], absl::StrCat(what, ", its input"));
}

absl::Status Reductions(Communicator& group) {
  const std::vector<size_t> counts = UnequalCounts(group.size());
  int round = 0;
  for (Collective kind :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    for (DType dtype : kTypes) {
      for (Reduction reduction : kReductions) {
        CollectiveCall call;
        call.kind = kind;
        call.dtype = dtype;
        call.reduction = reduction;
        call.root = kind == Collective::kReduce ? ++round % group.size() : 0;
        for (bool in_place : {false, true}) {
          for (size_t offset : {0, 1}) {
            for (size_t size : kSizes) {
              call.count = size;
              MUSTER_RETURN_IF_ERROR(CheckReduction(group, call, in_place, offset));
            }
            if (kind != Collective::kReduceScatter) continue;
            call.counts = counts;
            MUSTER_RETURN_IF_ERROR(CheckReduction(group, call, in_place, offset));
            call.counts = {};
          }
        }
      }
    }
  }
  return absl::OkStatus();
}

// Checks every operation with every type and reduction; sizes, places and alignments in turn.
absl::Status FewReductions(Communicator& group) {
  const std::vector<size_t> counts = UnequalCounts(group.size());
  int round = 0;
  for (Collective kind :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    for (DType dtype : kTypes) {
      for (Reduction reduction : kReductions) {
        ++round;
        CollectiveCall call;
        call.kind = kind;
        call.dtype = dtype;
        call.reduction = reduction;
        call.root = kind == Collective::kReduce ? round % group.size() : 0;
        call.count = kSizes[round % std::size(kSizes)];
        if (kind == Collective::kReduceScatter && round % 4 == 0) call.counts = counts;
        const bool in_place = round / 6 % 2 == 1;
        const size_t offset = round / 12 % 2;
        MUSTER_RETURN_IF_ERROR(CheckReduction(group, call, in_place, offset));
      }
    }
  }
  return absl::OkStatus();
}

// Checks sizes beyond one fragment of the scratch that are no multiple of anything.
absl::Status LargeReductions(Communicator& group) {
  struct Large {
    Collective kind;
    DType dtype;
    bool in_place;
    size_t offset;
  };
  for (const Large& large : {Large{Collective::kAllReduce, DType::kF32, true, 0},
                             Large{Collective::kAllReduce, DType::kBf16, false, 1},
                             Large{Collective::kReduceScatter, DType::kBf16, true, 0},
                             Large{Collective::kReduce, DType::kF16, false, 0}}) {
    CollectiveCall call;
    call.kind = large.kind;
    call.dtype = large.dtype;
    call.reduction = Reduction::kAvg;
    call.count = (16 << 20) / SizeOf(large.dtype) + 1;
    if (large.kind == Collective::kReduceScatter) call.count /= group.size();
    MUSTER_RETURN_IF_ERROR(CheckReduction(group, call, large.in_place, large.offset));
  }
  return absl::OkStatus();
}

// Checks sums that are wrong if any partial sum is kept in 16 bits; the least and the greatest of a
// NaN.
absl::Status Arithmetic(Communicator& group) {
  for (DType dtype : {DType::kBf16, DType::kF16}) {
    const double large = dtype == DType::kBf16 ? 256 : 2048;
    std::vector<HostBytes> inputs;
    for (int r = 0; r < group.size(); ++r) {
      inputs.push_back(Elements(dtype, std::vector<double>(5, r == 0 ? large : 1)));
    }
    DeviceMemory data(inputs[0].size());
    data.Write(inputs[group.rank()]);
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.dtype = dtype;
    call.count = 5;
    call.in = call.out = data.data();
    MUSTER_RETURN_IF_ERROR(group.Run(call));
    MUSTER_RETURN_IF_ERROR(Compare(data.Read(0, inputs[0].size()),
                                   Reduced(dtype, Reduction::kSum, inputs),
                                   absl::StrCat(Name(dtype), " sum in f32")));
  }
  for (Reduction reduction : {Reduction::kMin, Reduction::kMax}) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const bool last = group.rank() == group.size() - 1;
    DeviceMemory data(2 * sizeof(float));
    data.Write(Elements(DType::kF32, {last ? nan : 1.0, 2.0}));
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.reduction = reduction;
    call.count = 2;
    call.in = call.out = data.data();
    MUSTER_RETURN_IF_ERROR(group.Run(call));
    const HostBytes got = data.Read(0, 2 * sizeof(float));
    float values[2];
    std::memcpy(values, got.data(), sizeof(values));
    if (!std::isnan(values[0]) || values[1] != 2.0f) {
      return Wrong(absl::StrCat(Name(reduction), " of a NaN is ", values[0]));
    }
  }
  return absl::OkStatus();
}

absl::Status GathersOf(Communicator& group, DType dtype) {
  const std::vector<size_t> unequal = UnequalCounts(group.size());
  for (size_t size : {size_t{0}, size_t{3}, size_t{1023}, size_t{1} << 17}) {
    // One type shows what a large one is.
    if (size > 1023 && dtype != DType::kBf16) continue;
    for (bool with_counts : {false, true}) {
      for (bool in_place : {false, true}) {
        std::vector<size_t> counts =
            with_counts ? unequal : std::vector<size_t>(group.size(), size);
        HostBytes want;
        size_t begin = 0;
        for (int r = 0; r < group.size(); ++r) {
          if (r == group.rank()) begin = want.size();
          const HostBytes part = ValuesOf(r, counts[r], dtype, 2);
          want.insert(want.end(), part.begin(), part.end());
        }
        const size_t own = counts[group.rank()] * SizeOf(dtype);
        const HostBytes mine(want.begin() + begin, want.begin() + begin + own);
        DeviceMemory in(own, 1);
        DeviceMemory out(want.size(), 1);
        in.Write(mine);
        if (in_place) out.Write(mine, begin);
        CollectiveCall call;
        call.kind = Collective::kAllGather;
        call.dtype = dtype;
        call.count = size;
        if (with_counts) call.counts = counts;
        call.in = in_place ? out.data() + begin : in.data();
        call.out = out.data();
        MUSTER_RETURN_IF_ERROR(group.Run(call));
        MUSTER_RETURN_IF_ERROR(
            Compare(out.Read(0, want.size()), want, Describe(call, in_place, 1)));
      }
    }
  }
  return absl::OkStatus();
}

// Types in turn: with seven of them, each comes to each size and place once there are as many
// roots.
absl::Status Broadcasts(Communicator& group) {
  int round = 0;
  for (int root = 0; root < group.size(); ++root) {
    for (size_t size : kSizes) {
      for (bool in_place : {false, true}) {
        const DType dtype = kTypes[round++ % std::size(kTypes)];
        const HostBytes want = ValuesOf(root, size, dtype, 3);
        DeviceMemory in(want.size(), 2);
        DeviceMemory out(want.size(), 2);
        CollectiveCall call;
        call.kind = Collective::kBroadcast;
        call.dtype = dtype;
        call.count = size;
        call.root = root;
        call.out = out.data();
        if (group.rank() == root) {
          (in_place ? out : in).Write(want);
          call.in = in_place ? out.data() : in.data();
        }
        MUSTER_RETURN_IF_ERROR(group.Run(call));
        MUSTER_RETURN_IF_ERROR(
            Compare(out.Read(0, want.size()), want, Describe(call, in_place, 2)));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status AllToAllsOf(Communicator& group, DType dtype) {
  const int size = group.size();
  // Exact in every type, for at most 16 ranks.
  const auto value = [](int from, int to) { return static_cast<double>(from * 16 + to); };
  for (bool with_counts : {false, true}) {
    for (bool in_place : {false, true}) {
      // Returns the elements from rank i to rank j.
      const auto count = [&](int i, int j) -> size_t { return with_counts ? (i + 2 * j) % 4 : 3; };
      std::vector<size_t> sent(size);
      std::vector<size_t> received(size);
      std::vector<double> in_values;
      std::vector<double> want_values;
      for (int r = 0; r < size; ++r) {
        sent[r] = count(group.rank(), r);
        received[r] = count(r, group.rank());
        in_values.insert(in_values.end(), sent[r], value(group.rank(), r));
        want_values.insert(want_values.end(), received[r], value(r, group.rank()));
      }
      const HostBytes input = Elements(dtype, in_values);
      const HostBytes want = Elements(dtype, want_values);
      DeviceMemory in(std::max(input.size(), want.size()), 1);
      DeviceMemory out(want.size(), 1);
      in.Write(input);
      CollectiveCall call;
      call.kind = Collective::kAllToAll;
      call.dtype = dtype;
      call.count = 3;
      if (with_counts) {
        call.counts = received;
        call.send_counts = sent;
      }
      call.in = in.data();
      call.out = in_place ? in.data() : out.data();
      MUSTER_RETURN_IF_ERROR(group.Run(call));
      MUSTER_RETURN_IF_ERROR(
          Compare((in_place ? in : out).Read(0, want.size()), want, Describe(call, in_place, 1)));
    }
  }
  return absl::OkStatus();
}

// Every even rank sends to the next one, which sends something back.
absl::Status MessagesOf(Communicator& group, DType dtype) {
  const int rank = group.rank();
  const int peer = rank % 2 == 0 ? rank + 1 : rank - 1;
  for (size_t size : kSizes) {
    if (peer >= group.size()) break;
    const HostBytes there = ValuesOf(rank & ~1, size, dtype, 4);
    const HostBytes back = ValuesOf(rank | 1, size, dtype, 5);
    DeviceMemory data(size * SizeOf(dtype), 3);
    CollectiveCall call;
    call.dtype = dtype;
    call.root = peer;
    call.count = size;
    call.in = call.out = data.data();
    for (bool first : {true, false}) {
      const bool sends = first == (rank % 2 == 0);
      call.kind = sends ? Collective::kSend : Collective::kReceive;
      const HostBytes& what = first ? there : back;
      if (sends) data.Write(what);
      MUSTER_RETURN_IF_ERROR(group.Run(call));
      if (!sends) {
        MUSTER_RETURN_IF_ERROR(Compare(data.Read(0, what.size()), what, Describe(call, false, 3)));
      }
    }
  }
  // A rank without a peer waits here, or the others would see it leave.
  return group.Run(CollectiveCall());
}

// Every rank exchanges with both neighbours at once; one by one, sends would wait for one another.
absl::Status MessagesTogether(Communicator& group, DType dtype) {
  const int ranks = group.size();
  if (ranks == 1) return absl::OkStatus();
  const int rank = group.rank();
  const int peers[] = {(rank + 1) % ranks, (rank + ranks - 1) % ranks};
  const size_t neighbours = ranks == 2 ? 1 : 2;
  for (size_t size : kSizes) {
    DeviceMemory own(size * SizeOf(dtype), 3);
    own.Write(ValuesOf(rank, size, dtype, 6));
    std::vector<std::unique_ptr<DeviceMemory>> theirs;
    std::vector<CollectiveCall> messages;
    for (size_t i = 0; i < neighbours; ++i) {
      theirs.push_back(std::make_unique<DeviceMemory>(size * SizeOf(dtype), 3));
      CollectiveCall message;
      message.dtype = dtype;
      message.count = size;
      message.root = peers[i];
      message.kind = Collective::kSend;
      message.in = own.data();
      messages.push_back(message);
      message.kind = Collective::kReceive;
      message.in = nullptr;
      message.out = theirs.back()->data();
      messages.push_back(message);
    }
    const std::vector<std::shared_ptr<Work>> works = group.StartMessages(messages);
    for (const std::shared_ptr<Work>& work : works) {
      MUSTER_RETURN_IF_ERROR(work->Wait(absl::InfiniteDuration()));
    }
    for (size_t i = 0; i < neighbours; ++i) {
      const HostBytes want = ValuesOf(peers[i], size, dtype, 6);
      MUSTER_RETURN_IF_ERROR(
          Compare(theirs[i]->Read(0, want.size()), want, Describe(messages[1], false, 3)));
    }
  }
  return group.Run(CollectiveCall());
}

// A contract of one type, kept by all of them.
template <absl::Status (*run)(Communicator&, DType)>
absl::Status OfEachType(Communicator& group) {
  for (DType dtype : kTypes) MUSTER_RETURN_IF_ERROR(run(group, dtype));
  return absl::OkStatus();
}

absl::Status Barriers(Communicator& group) {
  CollectiveCall call;
  for (int i = 0; i < 20; ++i) MUSTER_RETURN_IF_ERROR(group.Run(call));
  return absl::OkStatus();
}

// Work queued before the call is seen by it, and the call by work queued after, with the host
// waiting for neither.
absl::Status Streams(Communicator& group) {
  constexpr size_t kBytes = 8 << 20;
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
    return Wrong("no stream");
  }
  DeviceMemory data(kBytes);
  DeviceMemory copy(kBytes);
  for (int round = 1; round <= 5; ++round) {
    cudaMemsetAsync(data.data(), round, kBytes, stream);
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.dtype = DType::kUint8;
    call.count = kBytes;
    call.in = call.out = data.data();
    call.stream = stream;
    const std::shared_ptr<Work> work = group.Start(call);
    cudaMemcpyAsync(copy.data(), data.data(), kBytes, cudaMemcpyDeviceToDevice, stream);
    cudaMemsetAsync(data.data(), 0, kBytes, stream);
    MUSTER_RETURN_IF_ERROR(work->Wait(absl::InfiniteDuration()));
    cudaStreamSynchronize(stream);
    const HostBytes want(kBytes, static_cast<std::byte>(round * group.size()));
    MUSTER_RETURN_IF_ERROR(
        Compare(copy.Read(0, kBytes), want, absl::StrCat("round ", round, " on a stream")));
  }
  cudaStreamDestroy(stream);
  return absl::OkStatus();
}

absl::Status Handles(Communicator& group) {
  constexpr int kCalls = 30;
  const size_t recorded = group.recorder().Calls().size();
  DeviceMemory data(kCalls * sizeof(float));
  data.Write(Elements(DType::kF32, std::vector<double>(kCalls, group.rank() + 1)));
  std::vector<std::shared_ptr<Work>> works;
  std::atomic<int> done{0};
  for (int i = 0; i < kCalls; ++i) {
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.count = 1;
    call.in = call.out = data.data() + i * sizeof(float);
    call.label = "handle";
    works.push_back(group.Start(call));
    works.back()->OnDone([&done](const absl::Status& status) { done += status.ok(); });
  }
  for (const auto& work : works) MUSTER_RETURN_IF_ERROR(work->Wait(absl::InfiniteDuration()));
  if (done != kCalls) return Wrong(absl::StrCat(done.load(), " of ", kCalls, " callbacks ran"));
  const double sum = group.size() * (group.size() + 1) / 2;
  MUSTER_RETURN_IF_ERROR(Compare(data.Read(0, kCalls * sizeof(float)),
                                 Elements(DType::kF32, std::vector<double>(kCalls, sum)),
                                 "sums of many handles"));
  const std::vector<RecordedCall> calls = group.recorder().Calls();
  if (calls.size() != std::min(recorded + kCalls, FlightRecorder::kCalls)) {
    return Wrong(absl::StrCat("the flight recorder has ", calls.size(), " calls"));
  }
  const RecordedCall& last = calls.back();
  if (last.label != "handle" || !last.status.ok() || last.duration == absl::InfiniteDuration()) {
    return Wrong("the flight recorder's last call is not the one that was made");
  }
  return absl::OkStatus();
}

absl::Status Buffers(Communicator& group) {
  for (size_t bytes : {size_t{0}, size_t{4096}, size_t{3} << 20}) {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveBuffer> buffer, group.Allocate(bytes));
    if (buffer->bytes().size() != bytes) return Wrong("a buffer of another size");
    if (reinterpret_cast<uintptr_t>(buffer->bytes().data()) % 64 != 0) {
      return Wrong("a buffer that is not aligned");
    }
    HostBytes host(bytes, std::byte{1});
    cudaMemcpy(host.data(), buffer->bytes().data(), bytes, cudaMemcpyDeviceToHost);
    MUSTER_RETURN_IF_ERROR(Compare(host, HostBytes(bytes), "a new buffer"));
    cudaMemset(buffer->bytes().data(), group.rank() + 1, bytes);
    cudaStreamSynchronize(cudaStreamLegacy);
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.dtype = DType::kUint8;
    call.reduction = Reduction::kMax;
    call.count = bytes;
    call.in = call.out = buffer->bytes().data();
    MUSTER_RETURN_IF_ERROR(group.Run(call));
    cudaMemcpy(host.data(), buffer->bytes().data(), bytes, cudaMemcpyDeviceToHost);
    MUSTER_RETURN_IF_ERROR(Compare(host, HostBytes(bytes, static_cast<std::byte>(group.size())),
                                   "an all-reduce in a buffer"));
  }
  return absl::OkStatus();
}

absl::Status Splits(Communicator& group) {
  // The last rank stands apart; the others split by parity, in reverse order.
  const int rank = group.rank();
  const bool apart = rank == group.size() - 1 && group.size() > 1;
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> part,
                          group.Split(apart ? -1 : rank % 2, -rank));
  if (apart) {
    if (part != nullptr) return Wrong("a rank without a colour got a group");
  } else {
    const int ranks = group.size() > 1 ? group.size() - 1 : 1;
    int members = 0;
    int after = 0;
    double sum = 0;
    for (int r = rank % 2; r < ranks; r += 2) {
      ++members;
      after += r > rank;
      sum += r;
    }
    if (part->size() != members || part->rank() != after) {
      return Wrong(absl::StrCat("rank ", part->rank(), " of ", part->size(), " in a part where ",
                                after, " of ", members, " was asked for"));
    }
    DeviceMemory data(sizeof(double));
    data.Write(Elements(DType::kF64, {static_cast<double>(rank)}));
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.dtype = DType::kF64;
    call.count = 1;
    call.in = call.out = data.data();
    MUSTER_RETURN_IF_ERROR(part->Run(call));
    MUSTER_RETURN_IF_ERROR(
        Compare(data.Read(0, sizeof(double)), Elements(DType::kF64, {sum}), "a part's sum"));
  }
  return Barriers(group);
}

// Wrong calls are refused and do no harm.
absl::Status Refusals(Communicator& group) {
  float host[4] = {};
  DeviceMemory data(16);
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  call.count = 4;
  call.in = call.out = host;
  if (!absl::IsInvalidArgument(group.Run(call))) return Wrong("memory of the host was taken");
  call.in = call.out = nullptr;
  if (!absl::IsInvalidArgument(group.Run(call))) return Wrong("a null pointer was taken");
  call.in = call.out = data.data();
  call.kind = Collective::kBroadcast;
  call.root = group.size();
  if (!absl::IsInvalidArgument(group.Run(call))) return Wrong("a root that is no rank was taken");
  call.kind = Collective::kAllReduce;
  call.deterministic = true;
  if (group.size() > 1 && !absl::IsInvalidArgument(group.Run(call))) {
    return Wrong("a deterministic reduction was taken");
  }
  return Barriers(group);
}

constexpr DeviceContract kContracts[] = {
    {"Barriers", Leaves::kWhole, 1, Barriers},
    {"Reductions", Leaves::kWhole, 1, Reductions, Calls::kMany},
    {"FewReductions", Leaves::kWhole, 1, FewReductions},
    {"LargeReductions", Leaves::kWhole, 1, LargeReductions},
    {"Arithmetic", Leaves::kWhole, 1, Arithmetic},
    {"Gathers", Leaves::kWhole, 1, OfEachType<GathersOf>},
    {"Broadcasts", Leaves::kWhole, 1, Broadcasts},
    {"AllToAlls", Leaves::kWhole, 1, OfEachType<AllToAllsOf>},
    {"Messages", Leaves::kWhole, 2, OfEachType<MessagesOf>},
    {"MessagesTogether", Leaves::kWhole, 2, OfEachType<MessagesTogether>},
    {"Streams", Leaves::kWhole, 1, Streams},
    {"Handles", Leaves::kWhole, 1, Handles},
    {"Buffers", Leaves::kWhole, 1, Buffers},
    {"Splits", Leaves::kWhole, 1, Splits},
    {"Refusals", Leaves::kWhole, 1, Refusals},
};

}  // namespace

absl::Span<const DeviceContract> DeviceContracts() {
  static const auto* const all = [] {
    auto* const contracts =
        new std::vector<DeviceContract>(std::begin(kContracts), std::end(kContracts));
    const absl::Span<const DeviceContract> failures = DeviceFailureContracts();
    contracts->insert(contracts->end(), failures.begin(), failures.end());
    return contracts;
  }();
  return *all;
}

}  // namespace muster
