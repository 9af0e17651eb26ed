#include "common/kernels/moe/router.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/vector_kernels.h"
#include "common/tensor/bfloat16.h"

namespace muster {
namespace {

// Tokens of a range of ParallelFor: some thousands of exponentials.
int64_t TokensOfRange(const RouterShape& shape) {
  constexpr int64_t kExponentials = 4096;
  return std::max<int64_t>(1, kExponentials / shape.experts);
}

// Maps numbers to integers of the same order, and NaN below all others. Not for -0, which no score
// and no sum of one and a bias is.
int32_t KeyOf(float x) {
  if (std::isnan(x)) return std::numeric_limits<int32_t>::min();
  int32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits >= 0 ? bits : bits ^ std::numeric_limits<int32_t>::max();
}

// Keeps the highest of the keys that are added, the highest first; of equal ones what came first.
class Highest {
 public:
  explicit Highest(int64_t most) : keys_(most), places_(most) {}

  void Clear() { size_ = 0; }
  void Add(int32_t key, int32_t place) {
    const auto most = static_cast<int64_t>(keys_.size());
    if (size_ == most && key <= keys_[most - 1]) return;
    int64_t i = size_ < most ? size_++ : most - 1;
    for (; i > 0 && keys_[i - 1] < key; --i) {
      keys_[i] = keys_[i - 1];
      places_[i] = places_[i - 1];
    }
    keys_[i] = key;
    places_[i] = place;
  }
  int64_t size() const { return size_; }
  int32_t place(int64_t i) const { return places_[i]; }

 private:
  std::vector<int32_t> keys_, places_;
  int64_t size_ = 0;
};

// The scores of one token at a time.
class TokenScores {
 public:
  explicit TokenScores(const RouterShape& shape)
      : shape_(shape), scores_(shape.experts), others_(shape.experts), softmax_(shape.experts) {}

  void Compute(const float* logits) {
    if (shape_.scores == RouterShape::Scores::kSoftmax) {
      ComputeSoftmax(logits);
      scores_.swap(softmax_);
      return;
    }
    // Made of e^-|x|, at most 1, 1 - s does not cancel, and nothing is infinite.
    const int64_t E = shape_.experts;
    for (int64_t e = 0; e < E; ++e) scores_[e] = -std::abs(logits[e]);
    ActiveVectorKernels().exp(E, scores_.data(), others_.data());
    for (int64_t e = 0; e < E; ++e) {
      const float high = 1 / (1 + others_[e]), low = others_[e] / (1 + others_[e]);
      scores_[e] = logits[e] < 0 ? low : high;
      others_[e] = logits[e] < 0 ? high : low;
    }
  }
  // Fills softmax() and logsumexp().
  void ComputeSoftmax(const float* logits) {
    const int64_t E = shape_.experts;
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t e = 0; e < E; ++e) largest = std::max(largest, logits[e]);
    for (int64_t e = 0; e < E; ++e) softmax_[e] = logits[e] - largest;
    ActiveVectorKernels().exp(E, softmax_.data(), softmax_.data());
    float sum = 0;
    for (int64_t e = 0; e < E; ++e) sum += softmax_[e];
    for (int64_t e = 0; e < E; ++e) softmax_[e] /= sum;
    logsumexp_ = largest + std::log(sum);
  }

  // s, and of the logistic function 1 - s.
  const float* scores() const { return scores_.data(); }
  const float* complements() const { return others_.data(); }
  const float* softmax() const {
    return shape_.scores == RouterShape::Scores::kSoftmax ? scores_.data() : softmax_.data();
  }
  float logsumexp() const { return logsumexp_; }

  // Returns Z of the chosen experts.
  float SumOf(const int32_t* chosen) const {
    float sum = shape_.scores == RouterShape::Scores::kSigmoid ? 1e-20f : 0;
    for (int64_t j = 0; j < shape_.top_k; ++j) sum += scores_[chosen[j]];
    return sum;
  }

 private:
  const RouterShape& shape_;
  std::vector<float> scores_, others_, softmax_;
  float logsumexp_ = 0;
};

// Chooses the experts of one token at a time.
class Chooser {
 public:
  explicit Chooser(const RouterShape& shape)
      : shape_(shape),
        scores_(shape.experts),
        experts_(shape.top_k),
        groups_(shape.top_groups),
        pair_(std::min<int64_t>(2, shape.experts / shape.groups)) {}

  void Choose(const float* scores, const float* bias, int32_t* chosen) {
    for (int64_t e = 0; e < shape_.experts; ++e) {
      scores_[e] = bias != nullptr ? scores[e] + bias[e] : scores[e];
    }
    experts_.Clear();
    if (shape_.top_groups == shape_.groups) {
      AddExperts(0, shape_.experts, experts_);
    } else {
      AddGroups();
      const int64_t size = shape_.experts / shape_.groups;
      // In order, so that of equal experts the lowest comes first.
      std::vector<int32_t>& order = order_;
      order.clear();
      for (int64_t i = 0; i < groups_.size(); ++i) order.push_back(groups_.place(i));
      std::sort(order.begin(), order.end());
      for (const int32_t group : order) AddExperts(group * size, (group + 1) * size, experts_);
    }
    for (int64_t j = 0; j < shape_.top_k; ++j) chosen[j] = experts_.place(j);
  }

 private:
  void AddExperts(int64_t begin, int64_t end, Highest& to) const {
    for (int64_t e = begin; e < end; ++e) to.Add(KeyOf(scores_[e]), static_cast<int32_t>(e));
  }
  void AddGroups() {
    const int64_t size = shape_.experts / shape_.groups;
    groups_.Clear();
    for (int64_t group = 0; group < shape_.groups; ++group) {
      pair_.Clear();
      AddExperts(group * size, (group + 1) * size, pair_);
      float sum = scores_[pair_.place(0)];
      if (pair_.size() == 2) sum += scores_[pair_.place(1)];
      groups_.Add(KeyOf(sum), static_cast<int32_t>(group));
    }
  }

  const RouterShape& shape_;
  std::vector<float> scores_;
  Highest experts_, groups_, pair_;
  std::vector<int32_t> order_;
};

bool IsCounted(const CountedTokens& counted, int64_t token) {
  return counted.labels == nullptr || counted.labels[token] >= 0;
}

void Add(const RouterSums& from, RouterSums& to) {
  to.auxiliary += from.auxiliary;
  to.z += from.z;
  to.entropy += from.entropy;
  to.tokens += from.tokens;
}

// Backward of one token at a time.
class TokenBackward {
 public:
  TokenBackward(const RouterShape& shape, const RouteBackwardArrays& arrays)
      : shape_(shape),
        arrays_(arrays),
        scale_(arrays.gradient_scale != nullptr ? *arrays.gradient_scale : 1),
        scores_(shape),
        shares_(shape.experts),
        gradients_(shape.experts) {}

  // Returns the gradients of the token's logits.
  const float* Run(int64_t token, RouterSums& sums) {
    const int64_t E = shape_.experts;
    const float* const logits = arrays_.logits + token * E;
    scores_.Compute(logits);
    std::fill(gradients_.begin(), gradients_.end(), 0.0f);
    AddWeights(token);
    const bool counted = IsCounted(arrays_.counted, token);
    if (counted && (arrays_.counts != nullptr || arrays_.sums != nullptr))
      AddAuxiliary(token, sums);
    // From here on gradients are those of logits.
    const float* const s = scores_.scores();
    if (shape_.scores == RouterShape::Scores::kSoftmax) {
      float sum = 0;
      for (int64_t e = 0; e < E; ++e) sum += gradients_[e] * s[e];
      for (int64_t e = 0; e < E; ++e) gradients_[e] = s[e] * (gradients_[e] - sum);
    } else {
      for (int64_t e = 0; e < E; ++e) gradients_[e] *= s[e] * scores_.complements()[e];
    }
    if (counted && arrays_.z != 0) AddZ(logits, sums);
    return gradients_.data();
  }

 private:
  void AddWeights(int64_t token) {
    const int32_t* const chosen = arrays_.chosen + token * shape_.top_k;
    const float* const s = scores_.scores();
    float factor = shape_.scaling, mean = 0;
    if (shape_.normalize) {
      const float sum = scores_.SumOf(chosen);
      factor /= sum;
      for (int64_t j = 0; j < shape_.top_k; ++j) mean += Gradient(token, j) * (s[chosen[j]] / sum);
    }
    for (int64_t j = 0; j < shape_.top_k; ++j) {
      gradients_[chosen[j]] += factor * (Gradient(token, j) - mean);
    }
  }
  // Returns the gradient of the weight of a token's choice.
  float Gradient(int64_t token, int64_t choice) const {
    const int64_t a = token * shape_.top_k + choice;
    const bool dropped = arrays_.placed != nullptr && arrays_.placed[a] == shape_.experts;
    return dropped ? 0 : arrays_.dweights[a];
  }

  void AddAuxiliary(int64_t token, RouterSums& sums) {
    const int64_t E = shape_.experts;
    const float* const s = scores_.scores();
    float total = 1;
    if (shape_.scores == RouterShape::Scores::kSigmoid) {
      total = 0;
      for (int64_t e = 0; e < E; ++e) total += s[e];
    }
    for (int64_t e = 0; e < E; ++e) shares_[e] = s[e] / total;
    if (arrays_.sums != nullptr) {
      sums.tokens += 1;
      for (int64_t e = 0; e < E; ++e) {
        const double share = shares_[e];
        if (share != 0) sums.entropy -= share * std::log(share);
      }
    }
    if (arrays_.counts == nullptr) return;
    const CountedTokens& counted = arrays_.counted;
    const float* const counts = arrays_.counts + (counted.first + token) / counted.run * E;
    float chosen = 0, loss = 0;
    for (int64_t e = 0; e < E; ++e) chosen += counts[e];
    if (chosen == 0) return;
    for (int64_t e = 0; e < E; ++e) loss += counts[e] / chosen * shares_[e];
    const float factor = arrays_.auxiliary * static_cast<float>(E);
    sums.auxiliary += static_cast<double>(factor * loss);
    // Shares of softmax are s; those of others s over their sum, which takes `loss` from each.
    const float mean = shape_.scores == RouterShape::Scores::kSoftmax ? 0 : loss;
    for (int64_t e = 0; e < E; ++e) {
      gradients_[e] += scale_ * factor / total * (counts[e] / chosen - mean);
    }
  }

  void AddZ(const float* logits, RouterSums& sums) {
    if (shape_.scores != RouterShape::Scores::kSoftmax) scores_.ComputeSoftmax(logits);
    const float logsumexp = scores_.logsumexp();
    sums.z += static_cast<double>(arrays_.z * (logsumexp * logsumexp));
    const float factor = scale_ * arrays_.z * 2 * logsumexp;
    const float* const softmax = scores_.softmax();
    for (int64_t e = 0; e < shape_.experts; ++e) gradients_[e] += factor * softmax[e];
  }

  const RouterShape& shape_;
  const RouteBackwardArrays& arrays_;
  const float scale_;
  TokenScores scores_;
  std::vector<float> shares_, gradients_;
};

}  // namespace

void Route(const RouterShape& shape, const RouteArrays& arrays) {
  ParallelFor(shape.tokens, TokensOfRange(shape), [&](int64_t begin, int64_t end) {
    TokenScores scores(shape);
    Chooser chooser(shape);
    for (int64_t n = begin; n < end; ++n) {
      scores.Compute(arrays.logits + n * shape.experts);
      int32_t* const chosen = arrays.chosen + n * shape.top_k;
      chooser.Choose(scores.scores(), arrays.bias, chosen);
      const float factor = shape.normalize ? shape.scaling / scores.SumOf(chosen) : shape.scaling;
      for (int64_t j = 0; j < shape.top_k; ++j) {
        arrays.weights[n * shape.top_k + j] = factor * scores.scores()[chosen[j]];
      }
    }
  });
}

void CountChosen(const RouterShape& shape, const int32_t* chosen, const CountedTokens& counted,
                 float* counts) {
  ParallelFor(counted.runs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      float* const of_run = counts + run * shape.experts;
      std::fill(of_run, of_run + shape.experts, 0.0f);
      const int64_t first = std::max<int64_t>(0, run * counted.run - counted.first);
      const int64_t last = std::min(shape.tokens, (run + 1) * counted.run - counted.first);
      for (int64_t n = first; n < last; ++n) {
        if (!IsCounted(counted, n)) continue;
        for (int64_t j = 0; j < shape.top_k; ++j) of_run[chosen[n * shape.top_k + j]] += 1;
      }
    }
  });
}

void LimitChosen(const RouterShape& shape, const int32_t* chosen, const ChoiceLimit& limit,
                 int32_t* placed) {
  const int64_t E = shape.experts;
  double all = 0;
  for (int64_t i = 0; i < limit.ranks * E; ++i) all += limit.totals[i];
  const float most = std::ceil(limit.factor * static_cast<float>(all / static_cast<double>(E)));
  // The choices that each expert takes yet.
  std::vector<double> left(E, most);
  for (int64_t i = 0; i < limit.rank * E; ++i) left[i % E] -= limit.totals[i];
  for (int64_t i = 0; i < limit.part * E; ++i) left[i % E] -= limit.parts[i];
  for (int64_t a = limit.first * shape.top_k; a < limit.end * shape.top_k; ++a) {
    const int32_t expert = chosen[a];
    placed[a] = left[expert] >= 1 ? expert : static_cast<int32_t>(E);
    left[expert] -= 1;
  }
}

void LoadDirection(int64_t experts, const LoadDirectionArrays& arrays) {
  std::vector<double> chosen(experts);
  double all = 0;
  for (int64_t i = 0; i < arrays.runs * experts; ++i) {
    chosen[i % experts] += arrays.counts[i];
    all += arrays.counts[i];
  }
  for (int64_t e = 0; e < experts; ++e) {
    const auto direction = static_cast<float>(static_cast<double>(experts) * chosen[e] - all);
    const float before = arrays.accumulation == Accumulation::kAdd ? arrays.direction[e] : 0;
    arrays.direction[e] = before + direction;
  }
}

template <typename T>
void RouteBackward(const RouterShape& shape, const RouteBackwardArrays& arrays) {
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  const int64_t range = TokensOfRange(shape);
  std::vector<RouterSums> parts((shape.tokens + range - 1) / range);
  ParallelFor(shape.tokens, range, [&](int64_t begin, int64_t end) {
    TokenBackward backward(shape, arrays);
    for (int64_t n = begin; n < end; ++n) {
      const float* const gradients = backward.Run(n, parts[begin / range]);
      kernels.narrow(shape.experts, gradients, static_cast<T*>(arrays.dlogits) + n * shape.experts);
    }
  });
  if (arrays.sums == nullptr) return;
  RouterSums all;
  for (const RouterSums& part : parts) Add(part, all);
  Add(all, *arrays.sums);
}

template void RouteBackward<float>(const RouterShape&, const RouteBackwardArrays&);
template void RouteBackward<BFloat16>(const RouterShape&, const RouteBackwardArrays&);
template void RouteBackward<Float16>(const RouterShape&, const RouteBackwardArrays&);

}  // namespace muster
