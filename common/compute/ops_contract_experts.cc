// Routers, and rows of experts.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/compute/host_expert_ops.h"
#include "common/compute/ops_contract.h"

namespace muster {
namespace {

using Scores = RouterShape::Scores;

std::vector<RouterShape> RouterShapes() {
  std::vector<RouterShape> shapes;
  for (const Scores scores : {Scores::kSoftmax, Scores::kSigmoid}) {
    for (const bool normalize : {false, true}) {
      for (RouterShape shape :
           {RouterShape{.tokens = 1, .experts = 1, .top_k = 1},
            RouterShape{.tokens = 9, .experts = 4, .top_k = 4},
            RouterShape{.tokens = 70, .experts = 6, .top_k = 1},
            RouterShape{.tokens = 37, .experts = 40, .top_k = 6, .groups = 5, .top_groups = 2},
            RouterShape{.tokens = 20, .experts = 36, .top_k = 3, .groups = 36, .top_groups = 7}}) {
        shape.scores = scores;
        shape.normalize = normalize;
        shape.scaling = normalize ? 2.5f : 1;
        shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

std::string NameOf(const RouterShape& shape) {
  return absl::StrCat(shape.tokens, " tokens, ", shape.experts, " experts, ",
                      shape.scores == Scores::kSoftmax ? "softmax" : "sigmoid",
                      shape.normalize ? ", normalized" : "");
}

// Each token's k different experts of [first, first + used).
std::vector<int32_t> RandomChoice(int64_t tokens, int32_t first, int64_t used, int64_t k,
                                  uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> experts(used), chosen;
  std::iota(experts.begin(), experts.end(), first);
  for (int64_t n = 0; n < tokens; ++n) {
    std::shuffle(experts.begin(), experts.end(), random);
    chosen.insert(chosen.end(), experts.begin(), experts.begin() + k);
  }
  return chosen;
}

struct OrderedRows {
  OrderedRows(const RouterShape& shape, const std::vector<int32_t>& chosen)
      : offsets(shape.experts + 1), assignments(shape.rows()), places(shape.rows()) {
    HostExpertOps().OrderRows(
        shape, chosen.data(),
        {.offsets = offsets.data(), .assignments = assignments.data(), .places = places.data()});
  }
  std::vector<int32_t> offsets, assignments, places;
};

TEST_P(OpsContractTest, RoutesTokens) {
  const auto expect_routes = [&](const RouterShape& shape, const HostArray& logits,
                                 const HostArray* bias) {
    std::vector<int32_t> chosen(shape.rows()), got(shape.rows());
    HostArray weights(DType::kF32, shape.rows());
    HostExpertOps().Route(shape, {.logits = logits.As<float>(),
                                  .bias = bias != nullptr ? bias->As<float>() : nullptr,
                                  .chosen = chosen.data(),
                                  .weights = weights.As<float>()});
    auto* const chosen_by_ops = static_cast<int32_t*>(Room(shape.rows() * sizeof(int32_t)));
    float* const weights_of_ops = Floats(shape.rows());
    ops().experts().Route(shape, {.logits = PutFloats(logits),
                                  .bias = bias != nullptr ? PutFloats(*bias) : nullptr,
                                  .chosen = chosen_by_ops,
                                  .weights = weights_of_ops});
    ReadBytes(chosen_by_ops, got.data(), shape.rows() * sizeof(int32_t));
    ASSERT_EQ(got, chosen) << NameOf(shape);
    Expect(weights_of_ops, weights, {.relative = 1e-5}, NameOf(shape));
  };
  for (const RouterShape& shape : RouterShapes()) {
    const int64_t N = shape.tokens, E = shape.experts;
    HostArray logits = Random(DType::kF32, N * E, 1, -4, 4);
    expect_routes(shape, logits, nullptr);
    const HostArray bias = Random(DType::kF32, E, 2, -1.5, 0.5);
    expect_routes(shape, logits, &bias);
    // Few different scores, within groups and across them.
    const float few[] = {-2, 0, 1};
    for (int64_t i = 0; i < N * E; ++i) logits.Set(i, few[i * 7919 % 101 % 3]);
    expect_routes(shape, logits, nullptr);
    // Equal scores everywhere, but for numbers that are none and far out.
    logits = Filled(DType::kF32, N * E, -1);
    const float odd[] = {NAN, INFINITY, -INFINITY, 1e4f, -1e4f, 0.0f, -0.0f};
    for (int64_t i = 0; i < N; ++i) logits.Set((i * E + i % E), odd[i % 7]);
    expect_routes(shape, logits, nullptr);
    const HostArray zeros = Filled(DType::kF32, E, -1);
    expect_routes(shape, logits, &zeros);
  }
}

TEST_P(OpsContractTest, CountsWhatIsChosen) {
  for (const int64_t N : {1, 40, 300}) {
    const RouterShape shape = {.tokens = N, .experts = 9, .top_k = 2};
    const std::vector<int32_t> chosen = RandomChoice(N, 1, 7, 2, 1);
    std::vector<int32_t> labels(N);
    for (int64_t n = 0; n < N; ++n) labels[n] = n % 3 == 1 ? -1 : 5;
    const int32_t* const put_labels = PutValues(labels);
    for (const bool labelled : {false, true}) {
      // The tokens begin in the middle of a run and end in another; runs at both ends have none.
      CountedTokens counted = {.first = 97, .run = 64, .runs = 8};
      HostArray wanted(DType::kF32, counted.runs * 9);
      counted.labels = labelled ? labels.data() : nullptr;
      HostExpertOps().CountChosen(shape, chosen.data(), counted, wanted.As<float>());
      float* const got = Floats(counted.runs * 9);
      counted.labels = labelled ? put_labels : nullptr;
      ops().experts().CountChosen(shape, PutValues(chosen), counted, got);
      Expect(got, wanted, {}, "counts");
    }
  }
}

TEST_P(OpsContractTest, LimitsWhatIsChosen) {
  for (const int64_t N : {1, 40, 3000}) {
    for (const float factor : {0.01f, 0.9f, 1.5f}) {
      const RouterShape shape = {.tokens = N, .experts = 9, .top_k = 2};
      const std::vector<int32_t> chosen = RandomChoice(N, 1, 7, 2, 1);
      HostArray totals = Random(DType::kF32, 3 * 9, 2, 0, 0), parts(DType::kF32, 2 * 9);
      for (int64_t i = 0; i < 2 * 9; ++i) parts.Set(i, static_cast<float>(i % 5 * N / 20));
      for (int64_t i = 0; i < 3 * 9; ++i) totals.Set(i, static_cast<float>(i % 7 * N / 9));
      ChoiceLimit limit = {.factor = factor,
                           .first = N / 3,
                           .end = N - N / 10,
                           .totals = totals.As<float>(),
                           .ranks = 3,
                           .rank = 1,
                           .parts = parts.As<float>(),
                           .part = 1};
      std::vector<int32_t> wanted(shape.rows(), -1), got(shape.rows());
      int32_t* const placed = PutValues(wanted);
      HostExpertOps().LimitChosen(shape, chosen.data(), limit, wanted.data());
      limit.totals = PutFloats(totals);
      limit.parts = PutFloats(parts);
      ops().experts().LimitChosen(shape, PutValues(chosen), limit, placed);
      ReadBytes(placed, got.data(), got.size() * sizeof(int32_t));
      EXPECT_EQ(got, wanted) << N << " tokens, " << factor;
    }
  }
}

TEST_P(OpsContractTest, LoadsAndTheirDirection) {
  constexpr int64_t kExperts = 5, kRuns = 3;
  // The second one above the first, and the last without any.
  const std::vector<float> counts = {1, 9, 0, 2, 0, 4, 7, 0, 3, 0, 5, 2, 0, 5, 0};
  const std::vector<float> expected = {5 * 10 - 38, 5 * 18 - 38, -38, 5 * 10 - 38, -38};
  for (const bool adds : {false, true}) {
    HostArray wanted(DType::kF32, kExperts);
    for (int64_t e = 0; e < kExperts; ++e) wanted.Set(e, expected[e] + (adds ? 100 * e : 0));
    float* const got = PutValues(std::vector<float>{0, 100, 200, 300, 400});
    ops().experts().LoadDirection(kExperts,
                                  {.runs = kRuns,
                                   .counts = PutValues(counts),
                                   .accumulation = adds ? Accumulation::kAdd : Accumulation::kWrite,
                                   .direction = got});
    Expect(got, wanted, {}, "direction");
  }
  uint64_t* const loads = PutValues(std::vector<uint64_t>{7, 0, 1, 0, 0});
  ops().experts().AddLoads(kExperts, PutValues(std::vector<int32_t>{0, 2, 2, 7, 8, 8}), loads);
  std::vector<uint64_t> read(kExperts);
  ReadBytes(loads, read.data(), kExperts * sizeof(uint64_t));
  EXPECT_EQ(read, (std::vector<uint64_t>{9, 0, 6, 1, 0}));
}

TEST_P(OpsContractTest, RouteBackward) {
  for (RouterShape shape : RouterShapes()) {
    for (const bool with_losses : {false, true}) {
      // More tokens than the most blocks have warps.
      if (with_losses && shape.experts == 6 && shape.normalize) shape.tokens = 4200;
      const int64_t N = shape.tokens, E = shape.experts, R = shape.rows();
      const HostArray logits = Random(DType::kF32, N * E, 1, -4, 4);
      const HostArray dweights = Random(DType::kF32, R, 2);
      const std::vector<int32_t> chosen = RandomChoice(N, 0, E, shape.top_k, 3);
      // Every fifth choice is dropped.
      std::vector<int32_t> placed = chosen;
      for (int64_t a = 0; a < R; a += 5) placed[a] = static_cast<int32_t>(E);
      std::vector<int32_t> labels(N, 1);
      for (int64_t n = 2; n < N; n += 3) labels[n] = -1;
      CountedTokens counted = {.labels = labels.data(), .first = 3, .run = 30};
      counted.runs = (3 + N) / 30 + 1;
      HostArray counts = Random(DType::kF32, counted.runs * E, 4, 0, 10);
      // A run of which nothing was counted.
      for (int64_t e = 0; e < E; ++e) counts.Set(e, 0);
      const HostArray scale = Filled(DType::kF32, 1, 1.5);
      HostArray wanted(type(), N * E);
      RouterSums wanted_sums = {.auxiliary = 1, .z = 2, .entropy = 3, .tokens = 4};
      RouterSums* const put_sums = PutValues(std::vector<RouterSums>{wanted_sums});
      RouteBackwardArrays arrays = {.logits = logits.As<float>(),
                                    .chosen = chosen.data(),
                                    .dweights = dweights.As<float>(),
                                    .placed = with_losses ? placed.data() : nullptr,
                                    .counted = counted,
                                    .counts = with_losses ? counts.As<float>() : nullptr,
                                    .auxiliary = with_losses ? 0.3f : 0,
                                    .z = with_losses ? 0.02f : 0,
                                    .gradient_scale = with_losses ? scale.As<float>() : nullptr,
                                    .dlogits = wanted.data(),
                                    .sums = with_losses ? &wanted_sums : nullptr};
      HostExpertOps().RouteBackward(shape, type(), arrays);
      void* const dlogits = Room(type(), N * E);
      arrays.logits = PutFloats(logits);
      arrays.chosen = PutValues(chosen);
      arrays.dweights = PutFloats(dweights);
      arrays.counted.labels = PutValues(labels);
      arrays.dlogits = dlogits;
      if (with_losses) {
        arrays.counts = PutFloats(counts);
        arrays.placed = PutValues(placed);
        arrays.gradient_scale = PutFloats(scale);
        arrays.sums = put_sums;
      }
      ops().experts().RouteBackward(shape, type(), arrays);
      Expect(dlogits, wanted, {.absolute = 4e-6, .relative = 1e-5}, NameOf(shape));
      RouterSums sums;
      ReadBytes(put_sums, &sums, sizeof(sums));
      EXPECT_NEAR(sums.auxiliary, wanted_sums.auxiliary, 1e-5 * wanted_sums.auxiliary);
      EXPECT_NEAR(sums.z, wanted_sums.z, 1e-5 * wanted_sums.z);
      EXPECT_NEAR(sums.entropy, wanted_sums.entropy, 1e-5 * wanted_sums.entropy);
      EXPECT_EQ(sums.tokens, wanted_sums.tokens);
    }
  }
}

TEST_P(OpsContractTest, OrdersRows) {
  struct Case {
    RouterShape shape;
    int32_t first;
    int64_t used;
  };
  for (const Case& c : {Case{{.tokens = 1, .experts = 1, .top_k = 1}, 0, 1},
                        Case{{.tokens = 1, .experts = 7, .top_k = 3}, 2, 5},
                        Case{{.tokens = 50, .experts = 8, .top_k = 8}, 0, 8},
                        // Empty experts at both ends; all tokens to one expert; more rows than a
                        // block orders at once.
                        Case{{.tokens = 300, .experts = 33, .top_k = 2}, 3, 5},
                        Case{{.tokens = 99, .experts = 4, .top_k = 1}, 2, 1},
                        Case{{.tokens = 3000, .experts = 3, .top_k = 2}, 0, 3}}) {
    const int64_t R = c.shape.rows(), E = c.shape.experts;
    const auto chosen = RandomChoice(c.shape.tokens, c.first, c.used, c.shape.top_k, 1);
    const OrderedRows wanted(c.shape, chosen);
    const auto integers = [&](int64_t n) {
      return static_cast<int32_t*>(Room(n * sizeof(int32_t)));
    };
    const ExpertRows rows = {
        .offsets = integers(E + 1), .assignments = integers(R), .places = integers(R)};
    ops().experts().OrderRows(c.shape, PutValues(chosen), rows);
    const auto read = [&](const int32_t* from, int64_t n) {
      std::vector<int32_t> values(n);
      ReadBytes(from, values.data(), n * sizeof(int32_t));
      return values;
    };
    EXPECT_EQ(read(rows.offsets, E + 1), wanted.offsets);
    EXPECT_EQ(read(rows.assignments, R), wanted.assignments);
    EXPECT_EQ(read(rows.places, R), wanted.places);
  }
}

TEST_P(OpsContractTest, OrdersHostedRows) {
  // Ranks without rows, experts without any, more rows than a block orders at once, and a round
  // that begins and ends within an expert.
  const auto random = [](int64_t ranks, int64_t experts, int32_t most) {
    std::mt19937 random(ranks + experts);
    std::vector<int32_t> offsets;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      offsets.push_back(0);
      for (int64_t e = 0; e < experts; ++e) {
        const auto some = static_cast<int32_t>(random() % (most + 1));
        offsets.push_back(offsets.back() + (e % 3 == 1 || rank == 2 ? 0 : some));
      }
    }
    return offsets;
  };
  for (const HostedRowsShape& shape :
       {HostedRowsShape{.ranks = 1, .rank = 0, .experts = 1, .first = 0, .rows = 3},
        HostedRowsShape{.ranks = 2, .rank = 1, .experts = 6, .first = 0, .rows = 0},
        HostedRowsShape{.ranks = 3, .rank = 1, .experts = 12, .first = 70, .rows = 90},
        HostedRowsShape{.ranks = 4, .rank = 3, .experts = 80, .first = 0, .rows = 5000}}) {
    const std::vector<int32_t> rank_offsets = random(shape.ranks, shape.experts, 200);
    const int64_t places = shape.experts / shape.ranks + 1;
    std::vector<int32_t> offsets(places), numbers(shape.rows);
    HostExpertOps().OrderHostedRows(shape, rank_offsets.data(), offsets.data(), numbers.data());
    auto* const got_offsets = static_cast<int32_t*>(Room(places * sizeof(int32_t)));
    auto* const got_numbers = static_cast<int32_t*>(Room((shape.rows + 1) * sizeof(int32_t)));
    ops().experts().OrderHostedRows(shape, PutValues(rank_offsets), got_offsets, got_numbers);
    const auto read = [&](const int32_t* from, int64_t n) {
      std::vector<int32_t> values(n);
      ReadBytes(from, values.data(), n * sizeof(int32_t));
      return values;
    };
    EXPECT_EQ(read(got_offsets, places), offsets);
    EXPECT_EQ(read(got_numbers, shape.rows), numbers);
  }
}

TEST_P(OpsContractTest, GathersAndCombinesRows) {
  for (const TokenRowsShape& sizes : {TokenRowsShape{.tokens = 1, .top_k = 1, .width = 1},
                                      TokenRowsShape{.tokens = 30, .top_k = 2, .width = 40},
                                      TokenRowsShape{.tokens = 70, .top_k = 3, .width = 67}}) {
    TokenRowsShape shape = sizes;
    shape.type = type();
    const int64_t N = shape.tokens, R = N * shape.top_k, C = shape.width;
    const RouterShape router = {.tokens = N, .experts = 6, .top_k = shape.top_k};
    const OrderedRows order(router, RandomChoice(N, 0, 6, shape.top_k, 1));

    const HostArray x = Random(type(), N * C, 2);
    HostArray gathered(type(), R * C);
    HostExpertOps().GatherRows(shape, x.data(), order.assignments.data(), gathered.data());
    void* const rows = Room(type(), R * C);
    ops().experts().GatherRows(shape, Put(x), PutValues(order.assignments), rows);
    Expect(rows, gathered, {}, "gathered");

    const HostArray of_experts = Random(type(), R * C, 3), first = Random(type(), N * C, 4),
                    last = Random(type(), N * C, 5);
    const int32_t* const places = PutValues(order.places);
    HostArray sums(type(), N * C);
    HostExpertOps().CombineRows(
        shape, {.rows = of_experts.data(), .places = order.places.data(), .out = sums.data()});
    void* const out = Room(type(), N * C);
    ops().experts().CombineRows(shape, {.rows = Put(of_experts), .places = places, .out = out});
    Expect(out, sums, {.absolute = 1e-6}, "combined");
    // Rows behind these are left out.
    const auto kept = static_cast<int32_t>(R / 3);
    HostExpertOps().CombineRows(shape, {.rows = of_experts.data(),
                                        .places = order.places.data(),
                                        .kept = &kept,
                                        .out = sums.data()});
    ops().experts().CombineRows(shape, {.rows = Put(of_experts),
                                        .places = places,
                                        .kept = PutValues(std::vector<int32_t>{kept}),
                                        .out = out});
    Expect(out, sums, {.absolute = 1e-6}, "kept");
    // There are first summands, over one of which the result lies.
    HostExpertOps().CombineRows(shape, {.rows = of_experts.data(),
                                        .places = order.places.data(),
                                        .bases = {first.data(), nullptr, last.data()},
                                        .out = sums.data()});
    void* const over = Put(last);
    ops().experts().CombineRows(shape, {.rows = Put(of_experts),
                                        .places = places,
                                        .bases = {Put(first), nullptr, over},
                                        .out = over});
    Expect(over, sums, {.absolute = 1e-6}, "combined with summands");
  }
}

TEST_P(OpsContractTest, ExpertLinear) {
  struct Case {
    std::vector<int32_t> offsets;
    int64_t in, out;
  };
  for (const auto& [offsets, in, out] : {
           Case{{0, 1}, 1, 1},
           // Empty experts at either end and between; widths of whole vectors, and others.
           Case{{0, 0, 1, 1}, 8, 16},
           Case{{0, 0, 20, 20, 93, 100, 100}, 72, 40},
           Case{{0, 0, 20, 20, 93, 100, 100}, 67, 33},
           // All rows in one expert; most of more experts than a warp has lanes are empty.
           Case{{0, 0, 0, 70, 70}, 16, 72},
           Case{[] {
                  std::vector<int32_t> many(71, 0);
                  for (int e = 0; e <= 70; ++e) many[e] = (e > 30) * 5 + (e > 32) + (e > 66) * 80;
                  return many;
                }(),
                24, 8},
           // Rows and widths that fill the larger tiles.
           Case{{0, 130, 300}, 136, 152},
       }) {
    const int64_t E = static_cast<int64_t>(offsets.size()) - 1, R = offsets.back();
    const ExpertLinear linear = {.type = type(), .experts = E, .rows = R, .in = in, .out = out};
    const std::string name = absl::StrCat(E, " experts, ", R, " rows, ", in, " x ", out);
    const HostArray x = Random(type(), R * in, 1), dy = Random(type(), R * out, 2),
                    weight = Random(type(), E * out * in, 3);
    const int32_t* const put_offsets = PutValues(offsets);
    void* const put_x = Put(x);
    void* const put_dy = Put(dy);
    void* const put_weight = Put(weight);
    HostExpertOps host;

    HostArray y(type(), R * out), dx(type(), R * in);
    host.Linear(linear, offsets.data(), x.data(), weight.data(), y.data());
    void* const got_y = Room(type(), R * out);
    ops().experts().Linear(linear, put_offsets, put_x, put_weight, got_y);
    Expect(got_y, y, {.absolute = 2e-5}, absl::StrCat("y of ", name));

    host.LinearBackwardInput(linear, offsets.data(), dy.data(), weight.data(), dx.data());
    void* const got_dx = Room(type(), R * in);
    ops().experts().LinearBackwardInput(linear, put_offsets, put_dy, put_weight, got_dx);
    Expect(got_dx, dx, {.absolute = 2e-5}, absl::StrCat("dx of ", name));

    for (const Accumulation accumulation : {Accumulation::kWrite, Accumulation::kAdd}) {
      // Before a write, there may be anything.
      HostArray wanted = accumulation == Accumulation::kAdd ? Random(DType::kF32, E * out * in, 4)
                                                            : HostArray(DType::kF32, E * out * in);
      float* const got = PutFloats(wanted);
      host.LinearBackwardWeights(linear, offsets.data(),
                                 {.dy = dy.data(),
                                  .x = x.data(),
                                  .accumulation = accumulation,
                                  .weight = wanted.As<float>()});
      ops().experts().LinearBackwardWeights(
          linear, put_offsets,
          {.dy = put_dy, .x = put_x, .accumulation = accumulation, .weight = got});
      Expect(got, wanted, {.absolute = 2e-5},
             absl::StrCat(accumulation == Accumulation::kAdd ? "added" : "written", " gradient of ",
                          name));
    }
  }
}

TEST_P(OpsContractTest, ActivatesExperts) {
  for (const bool gated : {false, true}) {
    for (const auto& [R, F] : {std::pair<int64_t, int64_t>{1, 1}, {9, 40}, {60, 333}, {20, 264}}) {
      const ExpertActivation activation = {.type = type(), .rows = R, .F = F, .gated = gated};
      const int64_t columns = gated ? 2 * F : F;
      const HostArray x = Random(type(), R * columns, 1, -5, 5), dy = Random(type(), R * F, 2),
                      weights = Random(DType::kF32, R, 3, 0, 2);
      std::vector<int32_t> assignments(R);
      std::iota(assignments.begin(), assignments.end(), 0);
      std::shuffle(assignments.begin(), assignments.end(), std::mt19937(4));
      void* const put_x = Put(x);
      const int32_t* const put_assignments = PutValues(assignments);
      float* const put_weights = PutFloats(weights);

      HostArray y(type(), R * F), dx(type(), R * columns), dweights(DType::kF32, R);
      HostExpertOps().Activate(activation, {.x = x.data(),
                                            .assignments = assignments.data(),
                                            .weights = weights.As<float>(),
                                            .y = y.data()});
      void* const got_y = Room(type(), R * F);
      ops().experts().Activate(
          activation,
          {.x = put_x, .assignments = put_assignments, .weights = put_weights, .y = got_y});
      Expect(got_y, y, {.absolute = 2e-5, .relative = 1e-5}, "y");

      HostExpertOps().ActivateBackward(activation, {.x = x.data(),
                                                    .assignments = assignments.data(),
                                                    .weights = weights.As<float>(),
                                                    .dy = dy.data(),
                                                    .dx = dx.data(),
                                                    .dweights = dweights.As<float>()});
      void* const got_dx = Room(type(), R * columns);
      float* const got_dweights = Floats(R);
      ops().experts().ActivateBackward(activation, {.x = put_x,
                                                    .assignments = put_assignments,
                                                    .weights = put_weights,
                                                    .dy = Put(dy),
                                                    .dx = got_dx,
                                                    .dweights = got_dweights});
      Expect(got_dx, dx, {.absolute = 2e-5, .relative = 1e-5}, "dx");
      Expect(got_dweights, dweights, {.absolute = 1e-4, .relative = 1e-5}, "dweights");
    }
  }
}

TEST_P(OpsContractTest, GatesRows) {
  for (const auto& [N, C] : {std::pair<int64_t, int64_t>{1, 1}, {20, 40}, {65, 335}, {9, 264}}) {
    const TokenRowsShape shape = {.type = type(), .tokens = N, .width = C};
    HostArray logits = Random(DType::kF32, N, 1, -5, 5);
    if (N > 2) {
      logits.Set(0, 1e4f);
      logits.Set(1, -1e4f);
    }
    const HostArray x = Random(type(), N * C, 2), dy = Random(type(), N * C, 3);
    float* const put_logits = PutFloats(logits);

    HostArray y(type(), N * C), dx(type(), N * C), dlogits(type(), N);
    HostExpertOps().GateRows(shape, {.logits = logits.As<float>(), .x = x.data(), .y = y.data()});
    void* const over = Put(x);
    ops().experts().GateRows(shape, {.logits = put_logits, .x = over, .y = over});
    Expect(over, y, {.absolute = 1e-7, .relative = 1e-5}, "y");

    HostExpertOps().GateRowsBackward(shape, {.logits = logits.As<float>(),
                                             .x = x.data(),
                                             .dy = dy.data(),
                                             .dx = dx.data(),
                                             .dlogits = dlogits.data()});
    // Into an array of its own, and over each input.
    for (int place = 0; place < 3; ++place) {
      void* const put_x = Put(x);
      void* const put_dy = Put(dy);
      void* const got = place == 0 ? Room(type(), N * C) : place == 1 ? put_x : put_dy;
      void* const got_dlogits = Room(type(), N);
      ops().experts().GateRowsBackward(
          shape,
          {.logits = put_logits, .x = put_x, .dy = put_dy, .dx = got, .dlogits = got_dlogits});
      Expect(got, dx, {.absolute = 1e-7, .relative = 1e-5}, "dx");
      Expect(got_dlogits, dlogits, {.absolute = 1e-5, .relative = 1e-5}, "dlogits");
    }
  }
}

}  // namespace
}  // namespace muster
