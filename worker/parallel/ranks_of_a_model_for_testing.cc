#include "worker/parallel/ranks_of_a_model_for_testing.h"

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/philox.h"
#include "common/partition/local_tensors.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/models/local_trainer_for_testing.h"
#include "worker/models/transformer.h"
#include "worker/nn/transformer/arrays/transformer_tensors.h"
#include "worker/nn/transformer/host_backend.h"
#include "worker/parallel/communicator_context_group.h"
#include "worker/parallel/communicator_expert_group.h"
#include "worker/parallel/communicator_tensor_group.h"

namespace muster {
namespace {

constexpr uint64_t kSeed = 11;

struct Results {
  absl::Status status;
  double loss = 0;
  int64_t correct = 0;
  std::vector<std::vector<float>> gradients;
};

// Runs a micro-batch forward and backward on this rank of the mesh, with its groups.
Results Train(const Model& model, const Batch& batch, const WayOfRanks& way, int rank,
              TensorGroup* tensor_group, ContextGroup* context_group, ExpertGroup* expert_group) {
  const std::vector<TensorSpec> tensors =
      LocalTensors(model.description().tensors, {way.mesh}, rank).value();
  LocalTrainer trainer(model, tensors, kSeed);
  trainer.micro_batch().split_backward = way.split_backward;
  EXPECT_EQ(trainer.Load(batch), absl::OkStatus());
  const absl::Status status = trainer.Run({.seed = kSeed,
                                           .clock = 5,
                                           .first_example = 3,
                                           .tensor_group = tensor_group,
                                           .sequence_parallel = way.sequence_parallel,
                                           .context_group = context_group,
                                           .context_exchange = way.exchange,
                                           .expert_group = expert_group});
  return {status, trainer.micro_batch().loss_sum, trainer.micro_batch().correct,
          trainer.gradients()};
}

// A context group whose rank dies at one of its calls.
class DyingContextGroup final : public ContextGroup {
 public:
  DyingContextGroup(ContextGroup& group, int call, std::function<void()> die)
      : group_(group), left_(call), die_(std::move(die)) {}

  int size() const override { return group_.size(); }
  int rank() const override { return group_.rank(); }
  void StartToPass(DType type, int64_t elements, const void* mine, void* theirs) override {
    Count();
    group_.StartToPass(type, elements, mine, theirs);
  }
  void AwaitPassed() override {
    Count();
    group_.AwaitPassed();
  }
  void Gather(DType type, int64_t elements, const void* mine, void* all) override {
    Count();
    group_.Gather(type, elements, mine, all);
  }
  void ScatterSums(DType type, int64_t elements, void* all, void* mine) override {
    Count();
    group_.ScatterSums(type, elements, all, mine);
  }
  void Exchange(DType type, int64_t elements, const void* in, void* out) override {
    Count();
    group_.Exchange(type, elements, in, out);
  }
  void Sum(DType type, int64_t elements, void* values) override {
    Count();
    group_.Sum(type, elements, values);
  }
  absl::Status status() const override { return group_.status(); }

  bool died() const { return left_ < 0; }

 private:
  void Count() {
    if (left_-- == 0) die_();
  }

  ContextGroup& group_;
  int left_;
  const std::function<void()> die_;
};

// An expert group whose rank dies at one of its calls.
class DyingExpertGroup final : public ExpertGroup {
 public:
  DyingExpertGroup(ExpertGroup& group, int call, std::function<void()> die)
      : group_(group), left_(call), die_(std::move(die)) {}

  int size() const override { return group_.size(); }
  int rank() const override { return group_.rank(); }
  void Exchange(std::function<void()> exchange) override { group_.Exchange(std::move(exchange)); }
  void Gather(int64_t numbers, const int32_t* mine, int32_t* all, int32_t* on_host) override {
    Count();
    group_.Gather(numbers, mine, all, on_host);
  }
  void Start(absl::Span<const Sent> sent, absl::Span<const Received> received) override {
    Count();
    group_.Start(sent, received);
  }
  void Await() override {
    Count();
    group_.Await();
  }
  absl::Status status() const override { return group_.status(); }

  bool died() const { return left_ < 0; }

 private:
  void Count() {
    if (left_-- == 0) die_();
  }

  ExpertGroup& group_;
  int left_;
  const std::function<void()> die_;
};

// Returns the group of the rank along the axes, a collective call of all; null if it is alone.
std::unique_ptr<Communicator> GroupAlong(Axes axes, const Mesh& mesh, Communicator& world) {
  if (mesh.size(axes) == 1) return nullptr;
  return world.Split(mesh.Position(world.rank(), axes.Others()), world.rank()).value();
}

// Puts the ranks' gradients together. Context ranks have a part of each. Those of what tensor ranks
// have in common are sums over these if they share out rows or heads, otherwise equal.
std::vector<std::vector<double>> Joined(const std::vector<TensorSpec>& whole,
                                        const std::vector<Results>& ranks, const WayOfRanks& way) {
  std::vector<std::vector<double>> joined;
  for (const TensorSpec& tensor : whole) {
    joined.emplace_back(tensor.tied_to.empty() ? tensor.elements() : 0);
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const bool first = way.mesh.Position(static_cast<int>(rank), Axis::kTensor) == 0;
    const auto local = LocalTensors(whole, {way.mesh}, static_cast<int>(rank)).value();
    for (size_t t = 0; t < whole.size(); ++t) {
      if (joined[t].empty()) continue;
      const bool equal = (whole[t].placement.kind == Placement::Kind::kReplicate ||
                          whole[t].placement.kind == Placement::Kind::kExperts) &&
                         !way.sequence_parallel;
      if (equal && !first) continue;
      const std::vector<float>& gradient = ranks[rank].gradients[t];
      ForEachGlobal(local[t], 0, gradient.size(),
                    [&](uint64_t first, uint64_t global, uint64_t count) {
                      for (uint64_t i = 0; i < count; ++i) {
                        joined[t][global + i] += gradient[first + i];
                      }
                    });
    }
  }
  return joined;
}

double Distance(const std::vector<double>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += double{b[i]} * b[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace

TransformerShape Gpt2ForTesting(int64_t context) {
  return {.layers = 2,
          .width = 48,
          .heads = 8,
          .kv_heads = 8,
          .feed_forward = 64,
          .vocabulary = 27,
          .padded_vocabulary = 32,
          .context = context,
          .dropout = 0.2f,
          .attention_dropout = 0.1f};
}

TransformerShape LlamaForTesting(int64_t context) {
  return {.layers = 2,
          .width = 64,
          .heads = 8,
          .head_columns = 12,
          .kv_heads = 2,
          .feed_forward = 40,
          .vocabulary = 32,
          .context = context,
          .norm = TransformerShape::Norm::kRmsNorm,
          .positions = TransformerShape::Positions::kRotary,
          .activation = TransformerShape::Activation::kSwiGlu,
          .tied_head = false,
          .biases = false,
          .attention_biases = true,
          .query_key_norm = TransformerShape::QueryKeyNorm::kPerHead,
          .window = context / 2 + 1};
}

TransformerShape ExpertsForTesting(int64_t context, int64_t experts) {
  TransformerShape shape = LlamaForTesting(context);
  shape.head_columns = 0;
  shape.attention_biases = false;
  shape.query_key_norm = TransformerShape::QueryKeyNorm::kNone;
  shape.window = 0;
  shape.experts = {.experts = experts,
                   .top_k = 2,
                   .width = 24,
                   .shared_width = 16,
                   .shared_gate = true,
                   .normalize = true,
                   .auxiliary = 0.1f,
                   .z = 0.01f,
                   .dense_layers = {0}};
  return shape;
}

TransformerShape ShapeForTesting(int which, int64_t context) {
  if (which == 2) return ExpertsForTesting(context);
  return which == 1 ? LlamaForTesting(context) : Gpt2ForTesting(context);
}

Batch RandomBatch(const TransformerShape& shape, int64_t sequences) {
  const Philox random(3, "test", "tokens");
  Batch batch;
  batch.Clear();
  batch.examples = sequences;
  for (int64_t i = 0; i < sequences * shape.context; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random.Below(shape.vocabulary, i)));
    batch.labels.push_back(i % 7 == 3 ? -1
                                      : static_cast<int32_t>(random.Below(shape.vocabulary, i, 1)));
  }
  return batch;
}

std::unique_ptr<const Model> TransformerOf(const TransformerShape& shape, const Mesh& mesh,
                                           DType type, Recompute recompute) {
  return MakeTransformer(shape, mesh, type, recompute,
                         std::make_unique<HostBackend>(ShapeOfRank(shape, mesh), type, recompute));
}

double BoundOf(DType type) {
  // Values of 16 bits are rounded once more for each sum over ranks.
  switch (type) {
    case DType::kBf16:
      return 3e-2;
    case DType::kF16:
      return 4e-3;
    default:
      return 1e-5;
  }
}

std::vector<absl::Status> StatusesAfterDeath(
    const std::function<std::unique_ptr<const Model>(const Mesh& mesh)>& model_of,
    const WayOfRanks& way, const Batch& batch, int call) {
  const int dying = way.mesh.world_size() - 1;
  std::vector<absl::Status> statuses(dying);
  bool died = false;
  TestRanks threads(dying + 1);
  threads.Run([&](std::unique_ptr<Communicator> world) {
    const int rank = world->rank();
    const std::unique_ptr<Communicator> context = GroupAlong(kContext, way.mesh, *world);
    const std::unique_ptr<Communicator> expert = GroupAlong(kExpertAxes, way.mesh, *world);
    // Nobody dies while others still make their groups.
    threads.AwaitAll();
    const auto wait = [](Work& work) { return work.Wait(absl::InfiniteDuration()); };
    const auto die = [&] { threads.Kill(dying); };
    constexpr int kNever = std::numeric_limits<int>::max();
    const int at = rank == dying ? call : kNever;
    CommunicatorContextGroup group(*context, absl::Minutes(5), wait);
    DyingContextGroup counting(group, expert == nullptr ? at : kNever, die);
    absl::optional<CommunicatorExpertGroup> expert_group;
    absl::optional<DyingExpertGroup> counting_experts;
    if (expert != nullptr) {
      expert_group.emplace(*expert, CommunicatorExpertGroup::Options());
      counting_experts.emplace(*expert_group, at, die);
    }
    const Results results = Train(*model_of(way.mesh), batch, way, rank, /*tensor_group=*/nullptr,
                                  &counting, expert == nullptr ? nullptr : &*counting_experts);
    if (rank == dying) {
      died = expert == nullptr ? counting.died() : counting_experts->died();
    } else {
      statuses[rank] = results.status;
    }
    threads.AwaitAll();
  });
  return died ? statuses : std::vector<absl::Status>();
}

void ExpectResultsOfOneRank(
    const std::function<std::unique_ptr<const Model>(const Mesh& mesh)>& model_of,
    const WayOfRanks& way, const Batch& batch, double bound) {
  const std::unique_ptr<const Model> whole = model_of(Mesh());
  const Results alone = Train(*whole, batch, {.split_backward = way.split_backward}, /*rank=*/0,
                              nullptr, nullptr, nullptr);
  const int ranks = way.mesh.world_size();
  std::vector<Results> results(ranks);
  TestRanks threads(ranks);
  threads.Run([&](std::unique_ptr<Communicator> world) {
    const std::unique_ptr<Communicator> tensor = GroupAlong(Axis::kTensor, way.mesh, *world);
    const std::unique_ptr<Communicator> context = GroupAlong(kContext, way.mesh, *world);
    absl::optional<CommunicatorTensorGroup> tensor_group;
    absl::optional<CommunicatorContextGroup> context_group;
    if (tensor != nullptr) tensor_group.emplace(*tensor, absl::Minutes(5));
    const std::unique_ptr<Communicator> expert = GroupAlong(kExpertAxes, way.mesh, *world);
    absl::optional<CommunicatorExpertGroup> expert_group;
    const auto wait = [](Work& work) { return work.Wait(absl::InfiniteDuration()); };
    if (context != nullptr) context_group.emplace(*context, absl::Minutes(5), wait);
    if (expert != nullptr) expert_group.emplace(*expert, CommunicatorExpertGroup::Options());
    results[world->rank()] = Train(*model_of(way.mesh), batch, way, world->rank(),
                                   tensor_group.has_value() ? &*tensor_group : nullptr,
                                   context_group.has_value() ? &*context_group : nullptr,
                                   expert_group.has_value() ? &*expert_group : nullptr);
    threads.AwaitAll();
  });
  for (const Results& result : results) {
    ASSERT_EQ(result.status, absl::OkStatus());
    EXPECT_NEAR(result.loss, alone.loss, bound * std::abs(alone.loss));
    EXPECT_EQ(result.loss, results[0].loss);
    // Values of 16 bits may tie where those of 32 do not.
    if (bound <= 1e-5) {
      EXPECT_EQ(result.correct, alone.correct);
    }
  }
  const std::vector<TensorSpec>& tensors = whole->description().tensors;
  const auto joined = Joined(tensors, results, way);
  for (size_t t = 0; t < tensors.size(); ++t) {
    EXPECT_LE(Distance(joined[t], alone.gradients[t]), bound) << tensors[t].name;
  }
}

}  // namespace muster
