// A warp takes a token, whose scores lie in shared memory; lane l has every 32nd expert from l on.
// Counts and the order of rows are made by a block for each expert, which reads all that was
// chosen: so nothing depends on an order of atomic additions.
#include "common/kernels/device/experts/device_router.h"

#include <cstring>

#include "common/kernels/device/simt/simt.h"

namespace muster {
namespace {

using Scores = RouterShape::Scores;

constexpr int kRouterThreads = 256;
constexpr int kRouterWarps = kRouterThreads / 32;

// The softmax of a token's logits: that of logit x is e^(x - largest) / sum.
struct TokenSoftmax {
  float largest;
  float sum;

  MUSTER_DEVICE float Of(float x) const { return Exp(x - largest) / sum; }
  MUSTER_DEVICE float LogSumExp() const { return largest + Log(sum); }
};

MUSTER_DEVICE TokenSoftmax SoftmaxOf(const float* logits, int64_t experts) {
  TokenSoftmax result = {-Infinity(), 0};
  for (int64_t e = LaneIndex(); e < experts; e += 32) {
    result.largest = Max(result.largest, logits[e]);
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    result.largest = Max(result.largest, ShuffleXor(result.largest, mask));
  }
  for (int64_t e = LaneIndex(); e < experts; e += 32) result.sum += Exp(logits[e] - result.largest);
  result.sum = WarpSum(result.sum);
  return result;
}

// The logistic function and 1 - it, by e^-|x|: neither infinity nor cancellation.
struct Logistic {
  float value;
  float complement;
};
MUSTER_DEVICE Logistic LogisticOf(float x) {
  const float e = Exp(x < 0 ? x : -x);
  const float high = 1.0f / (1.0f + e), low = e / (1.0f + e);
  return x < 0 ? Logistic{low, high} : Logistic{high, low};
}

// Fills s [E] in shared memory, each lane its experts', and returns the softmax if s is that.
MUSTER_DEVICE TokenSoftmax FillScores(const RouterShape& shape, const float* logits, float* s) {
  TokenSoftmax softmax = {};
  if (shape.scores == Scores::kSoftmax) {
    softmax = SoftmaxOf(logits, shape.experts);
    for (int64_t e = LaneIndex(); e < shape.experts; e += 32) s[e] = softmax.Of(logits[e]);
  } else {
    for (int64_t e = LaneIndex(); e < shape.experts; e += 32) s[e] = LogisticOf(logits[e]).value;
  }
  SyncWarp();
  return softmax;
}

// Maps numbers to integers of the same order, and NaN below all others, but above kNoKey. Not for
// -0, which no score and no sum of one and a bias is.
constexpr int32_t kNoKey = -2147483647 - 1;
MUSTER_DEVICE int32_t KeyOf(float x) {
  if (x != x) return kNoKey + 1;
  int32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}

// Returns the place of the highest of n keys in shared memory, of equal ones the lowest, on every
// lane, and puts kNoKey there.
MUSTER_DEVICE int TakeHighest(int32_t* keys, int64_t n) {
  int32_t key = kNoKey;
  int place = 0;
  for (int64_t i = LaneIndex(); i < n; i += 32) {
    if (keys[i] > key) {
      key = keys[i];
      place = static_cast<int>(i);
    }
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const int32_t other = ShuffleXor(key, mask);
    const int at = ShuffleXor(place, mask);
    if (other > key || (other == key && at < place)) {
      key = other;
      place = at;
    }
  }
  if (LaneIndex() == place % 32) keys[place] = kNoKey;
  SyncWarp();
  return place;
}

struct RouteKernel {
  static constexpr int kThreads = kRouterThreads;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = "route";

  RouterShape shape;
  RouteArrays arrays;

  size_t SharedBytes() const {
    return kRouterWarps * (2 * shape.experts + shape.groups) * sizeof(float);
  }

  MUSTER_DEVICE void Run() const {
    const int64_t n = static_cast<int64_t>(BlockX()) * kRouterWarps + WarpIndex();
    if (n >= shape.tokens) return;
    const int64_t E = shape.experts;
    float* const s =
        reinterpret_cast<float*>(SharedMemory()) + WarpIndex() * (2 * E + shape.groups);
    int32_t* const keys = reinterpret_cast<int32_t*>(s + E);
    FillScores(shape, arrays.logits + n * E, s);
    for (int64_t e = LaneIndex(); e < E; e += 32) keys[e] = KeyOf(Biased(s, e));
    SyncWarp();
    if (shape.top_groups < shape.groups) MaskGroups(s, keys, keys + E);
    float sum = shape.scores == Scores::kSigmoid ? 1e-20f : 0.0f;
    int32_t* const chosen = arrays.chosen + n * shape.top_k;
    for (int64_t j = 0; j < shape.top_k; ++j) {
      const int e = TakeHighest(keys, E);
      sum += s[e];
      if (LaneIndex() == 0) chosen[j] = e;
    }
    if (LaneIndex() != 0) return;
    const float factor = shape.normalize ? shape.scaling / sum : shape.scaling;
    for (int64_t j = 0; j < shape.top_k; ++j) {
      arrays.weights[n * shape.top_k + j] = factor * s[chosen[j]];
    }
  }

 private:
  MUSTER_DEVICE float Biased(const float* s, int64_t e) const {
    return arrays.bias != nullptr ? s[e] + arrays.bias[e] : s[e];
  }

  // Takes the keys of experts outside the best groups. `groups`: a place for each group's key.
  MUSTER_DEVICE void MaskGroups(const float* s, int32_t* keys, int32_t* groups) const {
    const int64_t size = shape.experts / shape.groups;
    for (int64_t group = LaneIndex(); group < shape.groups; group += 32) {
      int64_t best = -1, second = -1;
      for (int64_t e = group * size; e < (group + 1) * size; ++e) {
        if (best < 0 || keys[e] > keys[best]) {
          second = best;
          best = e;
        } else if (second < 0 || keys[e] > keys[second]) {
          second = e;
        }
      }
      groups[group] = KeyOf(second < 0 ? Biased(s, best) : Biased(s, best) + Biased(s, second));
    }
    SyncWarp();
    for (int64_t i = 0; i < shape.top_groups; ++i) TakeHighest(groups, shape.groups);
    // A group that was taken has no key now.
    for (int64_t e = LaneIndex(); e < shape.experts; e += 32) {
      if (groups[e / size] != kNoKey) keys[e] = kNoKey;
    }
    SyncWarp();
  }
};

template <typename T>
struct RouteBackwardKernel {
  static constexpr int kThreads = kRouterThreads;
  static constexpr int kMinBlocks = 2;
  static constexpr const char* kName = "route backward";

  RouterShape shape;
  RouteBackwardArrays arrays;
  // Tokens of a block.
  int64_t run;
  // [blocks, 4], or null.
  double* partial;

  size_t SharedBytes() const {
    return kRouterWarps * (4 * sizeof(double) + 2 * shape.experts * sizeof(float));
  }

  MUSTER_DEVICE void Run() const {
    double* const of_warps = reinterpret_cast<double*>(SharedMemory());
    float* const s =
        reinterpret_cast<float*>(of_warps + 4 * kRouterWarps) + WarpIndex() * 2 * shape.experts;
    const int64_t first = BlockX() * run;
    const int64_t end = Min64(first + run, shape.tokens);
    RouterSums sums = {0, 0, 0, 0};
    for (int64_t n = first + WarpIndex(); n < end; n += kRouterWarps) {
      Token(n, s, s + shape.experts, sums);
    }
    if (partial == nullptr) return;
    if (LaneIndex() == 0) {
      double* const mine = of_warps + 4 * WarpIndex();
      mine[0] = sums.auxiliary;
      mine[1] = sums.z;
      mine[2] = sums.entropy;
      mine[3] = sums.tokens;
    }
    SyncBlock();
    if (ThreadIndex() >= 4) return;
    double sum = 0;
    for (int w = 0; w < kRouterWarps; ++w) sum += of_warps[4 * w + ThreadIndex()];
    partial[BlockX() * 4 + ThreadIndex()] = sum;
  }

 private:
  // g [E]: the gradients, first of s and then of the logits. Sums are those of lane 0.
  MUSTER_DEVICE void Token(int64_t n, float* s, float* g, RouterSums& sums) const {
    const int64_t E = shape.experts;
    const float* const logits = arrays.logits + n * E;
    TokenSoftmax softmax = FillScores(shape, logits, s);
    for (int64_t e = LaneIndex(); e < E; e += 32) g[e] = 0;
    SyncWarp();
    if (LaneIndex() == 0) AddWeights(n, s, g);
    SyncWarp();
    const bool counted = arrays.counted.labels == nullptr || arrays.counted.labels[n] >= 0;
    if (counted) AddAuxiliary(n, s, g, sums);
    if (shape.scores == Scores::kSoftmax) {
      float sum = 0;
      for (int64_t e = LaneIndex(); e < E; e += 32) sum += g[e] * s[e];
      sum = WarpSum(sum);
      for (int64_t e = LaneIndex(); e < E; e += 32) g[e] = s[e] * (g[e] - sum);
    } else {
      for (int64_t e = LaneIndex(); e < E; e += 32) {
        g[e] *= s[e] * LogisticOf(logits[e]).complement;
      }
    }
    if (counted && arrays.z != 0) {
      if (shape.scores != Scores::kSoftmax) softmax = SoftmaxOf(logits, E);
      const float logsumexp = softmax.LogSumExp();
      sums.z += static_cast<double>(arrays.z * (logsumexp * logsumexp));
      const float factor = Scale() * arrays.z * 2 * logsumexp;
      for (int64_t e = LaneIndex(); e < E; e += 32) g[e] += factor * softmax.Of(logits[e]);
    }
    T* const dlogits = static_cast<T*>(arrays.dlogits) + n * E;
    for (int64_t e = LaneIndex(); e < E; e += 32) dlogits[e] = Narrow<T>(g[e]);
    // The next token's scores lie in the same place.
    SyncWarp();
  }

  MUSTER_DEVICE float Scale() const {
    return arrays.gradient_scale != nullptr ? *arrays.gradient_scale : 1.0f;
  }

  MUSTER_DEVICE void AddWeights(int64_t n, const float* s, float* g) const {
    const int32_t* const chosen = arrays.chosen + n * shape.top_k;
    float factor = shape.scaling, mean = 0;
    if (shape.normalize) {
      float sum = shape.scores == Scores::kSigmoid ? 1e-20f : 0.0f;
      for (int64_t j = 0; j < shape.top_k; ++j) sum += s[chosen[j]];
      factor /= sum;
      for (int64_t j = 0; j < shape.top_k; ++j) mean += Gradient(n, j) * (s[chosen[j]] / sum);
    }
    for (int64_t j = 0; j < shape.top_k; ++j) g[chosen[j]] += factor * (Gradient(n, j) - mean);
  }
  // Returns the gradient of the weight of a token's choice.
  MUSTER_DEVICE float Gradient(int64_t n, int64_t choice) const {
    const int64_t a = n * shape.top_k + choice;
    const bool dropped = arrays.placed != nullptr && arrays.placed[a] == shape.experts;
    return dropped ? 0.0f : arrays.dweights[a];
  }

  MUSTER_DEVICE void AddAuxiliary(int64_t n, const float* s, float* g, RouterSums& sums) const {
    const int64_t E = shape.experts;
    float total = 1;
    if (shape.scores == Scores::kSigmoid) {
      total = 0;
      for (int64_t e = LaneIndex(); e < E; e += 32) total += s[e];
      total = WarpSum(total);
    }
    if (partial != nullptr) {
      float entropy = 0;
      for (int64_t e = LaneIndex(); e < E; e += 32) {
        const float share = s[e] / total;
        if (share != 0) entropy -= share * Log(share);
      }
      sums.entropy += static_cast<double>(WarpSum(entropy));
      sums.tokens += 1;
    }
    if (arrays.counts == nullptr) return;
    const CountedTokens& counted = arrays.counted;
    const float* const counts = arrays.counts + (counted.first + n) / counted.run * E;
    float chosen = 0;
    for (int64_t e = LaneIndex(); e < E; e += 32) chosen += counts[e];
    chosen = WarpSum(chosen);
    if (chosen == 0) return;
    float loss = 0;
    for (int64_t e = LaneIndex(); e < E; e += 32) loss += counts[e] / chosen * (s[e] / total);
    loss = WarpSum(loss);
    const float factor = arrays.auxiliary * static_cast<float>(E);
    sums.auxiliary += static_cast<double>(factor * loss);
    const float mean = shape.scores == Scores::kSoftmax ? 0.0f : loss;
    for (int64_t e = LaneIndex(); e < E; e += 32) {
      g[e] += Scale() * factor / total * (counts[e] / chosen - mean);
    }
  }
};

// sums += what the blocks before it made, in one order.
struct RouterSumsKernel {
  static constexpr int kThreads = 32;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "router sums";

  int64_t blocks;
  const double* partial;
  RouterSums* sums;

  MUSTER_DEVICE void Run() const {
    double all[4] = {};
    for (int64_t i = LaneIndex(); i < blocks; i += 32) {
#pragma unroll
      for (int j = 0; j < 4; ++j) all[j] += partial[4 * i + j];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) all[j] = WarpSum(all[j]);
    if (LaneIndex() != 0) return;
    sums->auxiliary += all[0];
    sums->z += all[1];
    sums->entropy += all[2];
    sums->tokens += all[3];
  }
};

// A thread for each expert, which adds up all counts alike.
struct LoadDirectionKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "load direction";

  int64_t experts;
  LoadDirectionArrays arrays;

  MUSTER_DEVICE void Run() const {
    const int64_t e = BlockX() * kThreads + ThreadIndex();
    if (e >= experts) return;
    double chosen = 0, all = 0;
    for (int64_t i = 0; i < arrays.runs * experts; ++i) {
      if (i % experts == e) chosen += arrays.counts[i];
      all += arrays.counts[i];
    }
    const auto direction = static_cast<float>(static_cast<double>(experts) * chosen - all);
    const float before = arrays.accumulation == Accumulation::kAdd ? arrays.direction[e] : 0;
    arrays.direction[e] = before + direction;
  }
};

struct AddLoadsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "add loads";

  int64_t experts;
  const int32_t* offsets;
  uint64_t* loads;

  MUSTER_DEVICE void Run() const {
    const int64_t e = BlockX() * kThreads + ThreadIndex();
    if (e < experts) loads[e] += static_cast<uint64_t>(offsets[e + 1] - offsets[e]);
  }
};

// A block for each run and expert.
struct CountChosenKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = "count chosen";
  static constexpr size_t kShared = 2 * kThreads / 32 * sizeof(float);

  RouterShape shape;
  CountedTokens counted;
  const int32_t* chosen;
  float* counts;

  MUSTER_DEVICE void Run() const {
    const int64_t run = BlockX() / shape.experts, expert = BlockX() % shape.experts;
    const int64_t first = Max64(0, run * counted.run - counted.first);
    const int64_t end = Min64(shape.tokens, (run + 1) * counted.run - counted.first);
    // Exact: the rows of a run are fewer than 2^24.
    float count = 0;
    for (int64_t n = first + ThreadIndex(); n < end; n += kThreads) {
      if (counted.labels != nullptr && counted.labels[n] < 0) continue;
      for (int64_t j = 0; j < shape.top_k; ++j) {
        if (chosen[n * shape.top_k + j] == expert) count += 1;
      }
    }
    count = BlockSum<kThreads>(reinterpret_cast<float*>(SharedMemory()), count);
    if (ThreadIndex() == 0) counts[BlockX()] = count;
  }
};

// The sums of a block's threads before this one, and of all of them.
template <int kThreads>
struct ThreadSums {
  static constexpr int kWarps = kThreads / 32;
  static constexpr size_t kShared = kWarps * sizeof(int);

  int before;
  int all;

  MUSTER_DEVICE static ThreadSums Of(int x) {
    int* const warps = reinterpret_cast<int*>(SharedMemory());
    int sum = x;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int from = LaneIndex() - distance;
      const int other = Shuffle(sum, from < 0 ? LaneIndex() : from);
      if (from >= 0) sum += other;
    }
    if (LaneIndex() == 31) warps[WarpIndex()] = sum;
    SyncBlock();
    ThreadSums sums = {sum - x, 0};
    for (int w = 0; w < kWarps; ++w) {
      if (w < WarpIndex()) sums.before += warps[w];
      sums.all += warps[w];
    }
    SyncBlock();
    return sums;
  }
};

// Calls visit(a, n) for each assignment a in [begin, end) that is the expert's, in order, of which
// it is number n: sums over the threads before each. All threads of a block call it.
template <int kThreads, typename Visit>
MUSTER_DEVICE void ForEachOfExpert(const int32_t* chosen, int64_t expert, int64_t begin,
                                   int64_t end, Visit visit) {
  constexpr int kEach = 8;
  int before = 0;
  for (int64_t chunk = begin; chunk < end; chunk += kThreads * kEach) {
    const int64_t first = chunk + ThreadIndex() * kEach;
    const int64_t last = Min64(first + kEach, end);
    int mine = 0;
    for (int64_t a = first; a < last; ++a) mine += chosen[a] == expert;
    const auto sums = ThreadSums<kThreads>::Of(mine);
    int next = before + sums.before;
    before += sums.all;
    for (int64_t a = first; a < last; ++a) {
      if (chosen[a] == expert) visit(a, next++);
    }
  }
}

// A block for each expert, which numbers its choices.
struct LimitChosenKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = "limit chosen";
  static constexpr size_t kShared = ThreadSums<kThreads>::kShared;

  RouterShape shape;
  ChoiceLimit limit;
  const int32_t* chosen;
  int32_t* placed;

  MUSTER_DEVICE void Run() const {
    const int64_t expert = BlockX(), E = shape.experts;
    double all = 0, before = 0;
    for (int64_t i = 0; i < limit.ranks * E; ++i) all += limit.totals[i];
    for (int64_t r = 0; r < limit.rank; ++r) before += limit.totals[r * E + expert];
    for (int64_t p = 0; p < limit.part; ++p) before += limit.parts[p * E + expert];
    const double most = CeilOf(limit.factor * static_cast<float>(all / static_cast<double>(E)));
    ForEachOfExpert<kThreads>(chosen, expert, limit.first * shape.top_k, limit.end * shape.top_k,
                              [&](int64_t a, int number) {
                                const bool is_kept = before + number + 1 <= most;
                                placed[a] = static_cast<int32_t>(is_kept ? expert : E);
                              });
  }

 private:
  MUSTER_DEVICE static double CeilOf(float x) {
    const auto whole = static_cast<int64_t>(x);
    return static_cast<double>(whole) + (static_cast<float>(whole) < x ? 1 : 0);
  }
};

// A block for each expert. It reads all that was chosen twice: to count what belongs to experts
// before it, and to give its own assignments their rows, which it numbers by sums over the threads
// before each.
struct OrderRowsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr const char* kName = "order rows";
  static constexpr size_t kShared = ThreadSums<kThreads>::kShared;

  int64_t experts;
  int64_t assigned;  // R
  const int32_t* chosen;
  ExpertRows rows;

  MUSTER_DEVICE void Run() const {
    const int expert = BlockX();
    int before = 0;
    for (int64_t a = ThreadIndex(); a < assigned; a += kThreads) before += chosen[a] < expert;
    const int row = ThreadSums<kThreads>::Of(before).all;
    if (ThreadIndex() == 0) {
      rows.offsets[expert] = row;
      if (expert == experts - 1) rows.offsets[experts] = static_cast<int32_t>(assigned);
    }
    ForEachOfExpert<kThreads>(chosen, expert, 0, assigned, [&](int64_t a, int number) {
      rows.assignments[row + number] = static_cast<int32_t>(a);
      rows.places[a] = row + number;
    });
  }
};

}  // namespace

void DeviceRoute(DeviceStream& stream, const RouterShape& shape, const RouteArrays& arrays) {
  const RouteKernel kernel = {shape, arrays};
  Launch(stream, {.x = CeilDiv(shape.tokens, kRouterWarps)}, kernel.SharedBytes(), kernel);
}

void DeviceCountChosen(DeviceStream& stream, const RouterShape& shape, const int32_t* chosen,
                       const CountedTokens& counted, float* counts) {
  Launch(stream, {.x = counted.runs * shape.experts}, CountChosenKernel::kShared,
         CountChosenKernel{shape, counted, chosen, counts});
}

void DeviceLimitChosen(DeviceStream& stream, const RouterShape& shape, const int32_t* chosen,
                       const ChoiceLimit& limit, int32_t* placed) {
  Launch(stream, {.x = shape.experts}, LimitChosenKernel::kShared,
         LimitChosenKernel{shape, limit, chosen, placed});
}

void DeviceLoadDirection(DeviceStream& stream, int64_t experts, const LoadDirectionArrays& arrays) {
  Launch(stream, {.x = CeilDiv(experts, LoadDirectionKernel::kThreads)}, 0,
         LoadDirectionKernel{experts, arrays});
}

void DeviceAddLoads(DeviceStream& stream, int64_t experts, const int32_t* offsets,
                    uint64_t* loads) {
  Launch(stream, {.x = CeilDiv(experts, AddLoadsKernel::kThreads)}, 0,
         AddLoadsKernel{experts, offsets, loads});
}

void DeviceRouteBackward(DeviceStream& stream, const RouterShape& shape, DType type,
                         const RouteBackwardArrays& arrays, float* scratch) {
  if (shape.tokens == 0) return;
  const int64_t run = kRouterRuns.RowsOfRun(shape.tokens);
  const int64_t blocks = CeilDiv(shape.tokens, run);
  double* const partial = arrays.sums != nullptr ? reinterpret_cast<double*>(scratch) : nullptr;
  WithStorageType(type, [&](auto zero) {
    const RouteBackwardKernel<decltype(zero)> kernel = {shape, arrays, run, partial};
    Launch(stream, {.x = blocks}, kernel.SharedBytes(), kernel);
  });
  if (partial != nullptr) Launch(stream, {}, 0, RouterSumsKernel{blocks, partial, arrays.sums});
}

void DeviceOrderRows(DeviceStream& stream, const RouterShape& shape, const int32_t* chosen,
                     const ExpertRows& rows) {
  Launch(stream, {.x = shape.experts}, OrderRowsKernel::kShared,
         OrderRowsKernel{shape.experts, shape.rows(), chosen, rows});
}

}  // namespace muster
