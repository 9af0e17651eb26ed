// The operations of ranks that divide sequences zig-zag: attention by parts, and dropout of shares'
// rows.
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "common/compute/ops_contract.h"
#include "common/kernels/transformer/documents_for_testing.h"
#include "common/kernels/transformer/dropout.h"

namespace muster {
namespace {

// Ranks that divide sequences of 2 · ranks chunks of L tokens.
struct ZigZag {
  int64_t ranks, L;

  int64_t T() const { return 2 * ranks * L; }
  int64_t Chunk(int64_t rank, int64_t half) const {
    return half == 0 ? rank : 2 * ranks - 1 - rank;
  }
  // Returns the token of the whole that is a rank's local row.
  int64_t Token(int64_t rank, int64_t row) const { return Chunk(rank, row / L) * L + row % L; }
  SequenceShare Share(int64_t rank) const {
    return {.whole = T(), .half = L, .first = Chunk(rank, 0) * L, .second = Chunk(rank, 1) * L};
  }
};

// A rank's rows of [B, T, width].
HostArray RowsOf(const ZigZag& z, int64_t rank, int64_t B, int64_t width, const HostArray& whole) {
  HostArray rows(whole.type(), B * 2 * z.L * width);
  const size_t bytes = width * SizeOf(whole.type());
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t i = 0; i < 2 * z.L; ++i) {
      std::memcpy(rows.As<char>() + (b * 2 * z.L + i) * bytes,
                  whole.As<char>() + (b * z.T() + z.Token(rank, i)) * bytes, bytes);
    }
  }
  return rows;
}

std::vector<float> Wide(const HostArray& array) {
  std::vector<float> values(array.size());
  for (int64_t i = 0; i < array.size(); ++i) values[i] = array.Get(i);
  return values;
}

struct PartsCase {
  int64_t ranks, L, B, H, KV, D;
  // Elements between rows of qkv and of out.
  int64_t gap = 0;
  float dropout = 0;
  // The seed of DocumentPositions; 0: each sequence is one document.
  uint32_t documents = 0;
  int64_t window = 0;
};

constexpr PartsCase kParts[] = {{1, 1, 1, 1, 1, 8},
                                {1, 33, 2, 2, 1, 32},
                                {2, 1, 2, 2, 2, 16},
                                {2, 7, 2, 4, 2, 32},
                                {2, 64, 1, 2, 1, 64},
                                {2, 70, 1, 3, 1, 80, 8},
                                {3, 19, 2, 2, 1, 40},
                                {4, 30, 1, 1, 1, 20, 3},
                                {2, 150, 1, 2, 1, 32},
                                {2, 33, 2, 4, 2, 32, 0, 0.3f},
                                {3, 64, 1, 1, 1, 64, 0, 0.2f},
                                {2, 65, 2, 2, 1, 32, 0, 0, 1},
                                {3, 40, 1, 2, 1, 80, 8, 0, 2},
                                {4, 24, 2, 1, 1, 64, 0, 0, 3},
                                {2, 50, 1, 1, 1, 128, 0, 0, 4},
                                {3, 40, 1, 2, 1, 80, 8, 0, 0, 30},
                                {2, 65, 2, 2, 1, 32, 0, 0.2f, 5, 100},
                                {2, 90, 1, 2, 1, 32, 0, 0.4f, 5},
                                {3, 21, 2, 1, 1, 20, 1, 0.5f, 6}};

// Results and gradients, dense, as the whole has them.
struct Results {
  Results(const PartsCase& c, int64_t T)
      : out(c.B * T * c.H * c.D),
        logsumexp(c.B * c.H * T),
        dq(out.size()),
        dkv(c.B * T * 2 * c.KV * c.D) {}
  std::vector<float> out, logsumexp, dq, dkv;
};

double Distance(const std::vector<float>& got, const std::vector<float>& wanted) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - wanted[i];
    error += difference * difference;
    norm += static_cast<double>(wanted[i]) * wanted[i];
  }
  return std::sqrt(error) / std::sqrt(norm);
}

// The arrays of one rank, in the memory of the ops.
struct RankArrays {
  void* qkv;
  void* keys_values;
  const int32_t* positions;
  void* dout;
  float* out;
  float* logsumexp;
  float* delta;
  float* dq;
  float* dkv;
};

const void* At(const void* array, DType type, int64_t elements) {
  return static_cast<const char*>(array) + elements * SizeOf(type);
}

// Calls f(part, half of the queries, half of the keys, rank of the keys) for all pairs of a rank's
// queries, as a ring brings the keys: its own first.
template <typename F>
void ForPairs(const PartsCase& c, int64_t rank, const F& f) {
  const ZigZag z = {c.ranks, c.L};
  for (int64_t step = 0; step < c.ranks; ++step) {
    const int64_t from = (rank + c.ranks - step) % c.ranks;
    // The later chunk of keys comes first: early queries see nothing of it.
    for (const int64_t keys : {1, 0}) {
      for (const int64_t queries : {0, 1}) {
        f(AttentionPart{.queries = c.L,
                        .keys = c.L,
                        .first_query = z.Chunk(rank, queries) * c.L,
                        .first_key = z.Chunk(from, keys) * c.L,
                        .query_rows = 2 * c.L,
                        .key_rows = 2 * c.L},
          queries, keys, from);
      }
    }
  }
}

TEST_P(OpsContractTest, PartsMakeTheWhole) {
  for (const PartsCase& c : kParts) {
    SCOPED_TRACE(testing::Message()
                 << c.ranks << " ranks L " << c.L << " B " << c.B << " H " << c.H << " D " << c.D
                 << " dropout " << c.dropout << " documents " << c.documents);
    const ZigZag z = {c.ranks, c.L};
    const int64_t T = z.T(), rows = c.B * T, local = c.B * 2 * c.L;
    const int64_t width = c.H * c.D, kv_width = c.KV * c.D;
    const int64_t in_stride = width + 2 * kv_width + c.gap, out_stride = width + c.gap;
    AttentionShape shape = {.B = c.B,
                            .T = T,
                            .H = c.H,
                            .KV = c.KV,
                            .D = c.D,
                            .qkv_stride = in_stride,
                            .out_stride = out_stride,
                            .window = c.window};
    if (!Takes(shape)) continue;
    std::vector<int32_t> positions = DocumentPositions(c.B, T, c.documents);
    const HostArray qkv = Random(type(), rows * in_stride, 1, -2, 2);
    const HostArray dout = Random(type(), rows * out_stride, 2);
    const DropoutMask mask(5, "probabilities", 7, c.dropout);
    AttentionDropout dropout;
    OpDropout op_dropout;
    if (c.dropout > 0) {
      dropout = {.mask = &mask, .first_example = 2, .first_head = c.H, .heads = 2 * c.H};
      op_dropout = PutDropout(mask, {.first_example = 2});
      op_dropout.first_head = c.H;
      op_dropout.heads = 2 * c.H;
    }

    // The whole, in f32.
    const std::vector<float> wide_qkv = Wide(qkv);
    const std::vector<float> wide_dout = Wide(dout);
    std::vector<float> out(rows * out_stride), logsumexp(rows * c.H), dqkv(wide_qkv.size());
    AttentionShape whole = shape;
    if (c.documents != 0) whole.token_positions = positions.data();
    Attention(whole, wide_qkv.data(), out.data(), logsumexp.data(), dropout);
    AttentionBackward(whole, wide_qkv.data(), out.data(), logsumexp.data(), wide_dout.data(),
                      dqkv.data(), dropout);

    const StridedRows keys = {.rows = local,
                              .columns = 2 * kv_width,
                              .from_stride = in_stride,
                              .to_stride = 2 * kv_width};
    std::vector<RankArrays> ranks;
    for (int64_t r = 0; r < c.ranks; ++r) {
      RankArrays& rank = ranks.emplace_back();
      rank.qkv = Put(RowsOf(z, r, c.B, in_stride, qkv));
      rank.dout = Put(RowsOf(z, r, c.B, out_stride, dout));
      std::vector<int32_t> local_positions;
      for (int64_t i = 0; i < local; ++i) {
        local_positions.push_back(positions[i / (2 * c.L) * T + z.Token(r, i % (2 * c.L))]);
      }
      rank.positions = c.documents != 0 ? PutValues(local_positions) : nullptr;
      rank.keys_values = Room(type(), local * 2 * kv_width);
      ops().ConvertRows(keys, type(), At(rank.qkv, type(), width), type(), rank.keys_values);
      rank.out = Floats(local * out_stride);
      rank.logsumexp = Floats(local * c.H);
      rank.delta = Floats(local * c.H);
      rank.dq = PutFloats(Filled(DType::kF32, local * width, 0));
      rank.dkv = PutFloats(Filled(DType::kF32, local * 2 * kv_width, 0));
    }
    for (int64_t r = 0; r < c.ranks; ++r) {
      const RankArrays& rank = ranks[r];
      int parts[2] = {0, 0};
      ForPairs(c, r, [&](AttentionPart part, int64_t half, int64_t key_half, int64_t from) {
        shape.token_positions = rank.positions != nullptr ? rank.positions + half * c.L : nullptr;
        AttentionPartArrays arrays = {
            .queries = At(rank.qkv, type(), half * c.L * in_stride),
            .keys_values = At(ranks[from].keys_values, type(), key_half * c.L * 2 * kv_width),
            .accumulation = parts[half]++ == 0 ? Accumulation::kWrite : Accumulation::kAdd,
            .out = rank.out + half * c.L * out_stride,
            .logsumexp = rank.logsumexp + half * c.L,
            .dropout = op_dropout};
        if (from == r) {
          // A rank's own keys need not be packed.
          part.key_stride = in_stride;
          arrays.keys_values = At(rank.qkv, type(), key_half * c.L * in_stride + width);
        }
        ops().AttentionOfPart(shape, part, type(), arrays);
      });
    }
    for (int64_t r = 0; r < c.ranks; ++r) {
      const RankArrays& rank = ranks[r];
      void* const rounded = Room(type(), local * out_stride);
      ops().ConvertRows(
          {.rows = local, .columns = width, .from_stride = out_stride, .to_stride = out_stride},
          DType::kF32, rank.out, type(), rounded);
      ops().AttentionDelta(shape, 2 * c.L, type(), rounded, rank.dout, rank.delta);
      ForPairs(c, r, [&](AttentionPart part, int64_t half, int64_t key_half, int64_t from) {
        shape.token_positions = rank.positions != nullptr ? rank.positions + half * c.L : nullptr;
        ops().AttentionPartBackward(
            shape, part, type(),
            {.queries = At(rank.qkv, type(), half * c.L * in_stride),
             .keys_values = At(ranks[from].keys_values, type(), key_half * c.L * 2 * kv_width),
             .logsumexp = rank.logsumexp + half * c.L,
             .dropout = op_dropout,
             .delta = rank.delta + half * c.L,
             .dout = At(rank.dout, type(), half * c.L * out_stride),
             .dqueries = rank.dq + half * c.L * width,
             .dkeys_values = ranks[from].dkv + key_half * c.L * 2 * kv_width});
      });
    }

    Results got(c, T);
    Results wanted(c, T);
    for (int64_t r = 0; r < c.ranks; ++r) {
      const RankArrays& rank = ranks[r];
      const HostArray rank_out = Read(rank.out, DType::kF32, local * out_stride);
      const HostArray rank_lse = Read(rank.logsumexp, DType::kF32, local * c.H);
      const HostArray rank_dq = Read(rank.dq, DType::kF32, local * width);
      const HostArray rank_dkv = Read(rank.dkv, DType::kF32, local * 2 * kv_width);
      for (int64_t i = 0; i < local; ++i) {
        const int64_t b = i / (2 * c.L), token = z.Token(r, i % (2 * c.L)), row = b * T + token;
        for (int64_t j = 0; j < width; ++j) {
          got.out[row * width + j] = rank_out.Get(i * out_stride + j);
          got.dq[row * width + j] = rank_dq.Get(i * width + j);
        }
        for (int64_t j = 0; j < 2 * kv_width; ++j) {
          got.dkv[row * 2 * kv_width + j] = rank_dkv.Get(i * 2 * kv_width + j);
        }
        for (int64_t h = 0; h < c.H; ++h) {
          got.logsumexp[(b * c.H + h) * T + token] =
              rank_lse.Get((b * c.H + h) * 2 * c.L + i % (2 * c.L));
        }
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t j = 0; j < width; ++j) {
        wanted.out[row * width + j] = out[row * out_stride + j];
        wanted.dq[row * width + j] = dqkv[row * in_stride + j];
      }
      for (int64_t j = 0; j < 2 * kv_width; ++j) {
        wanted.dkv[row * 2 * kv_width + j] = dqkv[row * in_stride + width + j];
      }
    }
    // Probabilities may be rounded before the second product, and outputs are before backward.
    const double rounding = type() == DType::kF32 ? 0 : 3 * RoundingOf(type());
    EXPECT_LE(Distance(got.out, wanted.out), 2e-6 + rounding) << "out";
    EXPECT_LE(Distance(got.logsumexp, logsumexp), 2e-6) << "logsumexp";
    EXPECT_LE(Distance(got.dq, wanted.dq), 1e-5 + 2 * rounding) << "dq";
    EXPECT_LE(Distance(got.dkv, wanted.dkv), 1e-5 + 2 * rounding) << "dkv";
    if (HasFailure()) return;
  }
}

// A query that no key of any part so far was for has nothing, and what has no part in the call
// stays.
TEST_P(OpsContractTest, QueriesThatSeeNothing) {
  constexpr int64_t kL = 70, kD = 32;
  const AttentionShape shape = {.B = 1, .T = 4 * kL, .H = 1, .KV = 1, .D = kD};
  const HostArray qkv = Random(type(), 2 * kL * 3 * kD, 1);
  void* const put = Put(qkv);
  float* const out = Floats(kL * kD);
  float* const logsumexp = Floats(kL);
  // Keys behind the queries.
  AttentionPart part = {.queries = kL,
                        .keys = kL,
                        .first_query = 0,
                        .first_key = kL,
                        .query_rows = kL,
                        .key_rows = kL,
                        .key_stride = 3 * kD};
  AttentionPartArrays arrays = {.queries = put,
                                .keys_values = At(put, type(), kL * 3 * kD + kD),
                                .out = out,
                                .logsumexp = logsumexp};
  ops().AttentionOfPart(shape, part, type(), arrays);
  // Half of the queries lie before the keys.
  float* const half_out = Floats(kL * kD);
  float* const half_logsumexp = Floats(kL);
  part.first_key = kL / 2;
  arrays.out = half_out;
  arrays.logsumexp = half_logsumexp;
  ops().AttentionOfPart(shape, part, type(), arrays);
  Expect(out, Filled(DType::kF32, kL * kD, 0), {}, "out");
  Expect(logsumexp, Filled(DType::kF32, kL, -INFINITY), {}, "logsumexp");
  const HostArray half = Read(half_out, DType::kF32, kL * kD);
  const HostArray sums = Read(half_logsumexp, DType::kF32, kL);
  for (int64_t t = 0; t < kL; ++t) {
    ASSERT_EQ(std::isfinite(sums.Get(t)), t >= kL / 2) << t;
    ASSERT_EQ(half.Get(t * kD) == 0, t < kL / 2) << t;
  }
  // Merging what sees nothing changes nothing.
  part.first_key = kL;
  arrays.accumulation = Accumulation::kAdd;
  ops().AttentionOfPart(shape, part, type(), arrays);
  const HostArray still = Read(half_out, DType::kF32, kL * kD);
  EXPECT_EQ(std::memcmp(still.data(), half.data(), half.bytes()), 0);
  // Nor do gradients reach anything.
  float* const dq = PutFloats(Filled(DType::kF32, kL * kD, 3));
  float* const dkv = PutFloats(Filled(DType::kF32, kL * 2 * kD, 4));
  ops().AttentionPartBackward(shape, part, type(),
                              {.queries = put,
                               .keys_values = arrays.keys_values,
                               .logsumexp = half_logsumexp,
                               .delta = half_logsumexp,
                               .dout = put,
                               .dqueries = dq,
                               .dkeys_values = dkv});
  Expect(dq, Filled(DType::kF32, kL * kD, 3), {}, "dq");
  Expect(dkv, Filled(DType::kF32, kL * 2 * kD, 4), {}, "dkv");
}

TEST_P(OpsContractTest, ConvertsRows) {
  for (const auto& [rows, columns, gap] :
       {std::tuple{1, 1, 0}, {5, 7, 3}, {33, 64, 8}, {9, 24, 1}}) {
    const int64_t wide = columns + gap, x_size = rows * wide, y_size = rows * (wide + gap);
    for (const auto& [from, to] : {std::pair{DType::kF32, type()},
                                   {type(), DType::kF32},
                                   {type(), type()},
                                   {DType::kF32, DType::kF32}}) {
      const HostArray x = Random(from, x_size, 1);
      HostArray wanted = Filled(to, y_size, 5);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < columns; ++i) wanted.Set(r * (wide + gap) + i, x.Get(r * wide + i));
      }
      void* const y = Put(Filled(to, y_size, 5));
      ops().ConvertRows(
          {.rows = rows, .columns = columns, .from_stride = wide, .to_stride = wide + gap}, from,
          Put(x), to, y);
      const HostArray got = Read(y, to, y_size);
      ASSERT_EQ(std::memcmp(got.data(), wanted.data(), wanted.bytes()), 0) << rows << " " << gap;
    }
  }
}

TEST_P(OpsContractTest, Adds) {
  for (const int64_t n : {1, 8, 131, 70001}) {
    const HostArray x = Random(DType::kF32, n, 1), y = Random(DType::kF32, n, 2);
    HostArray wanted = y;
    for (int64_t i = 0; i < n; ++i) wanted.Set(i, x.Get(i) + y.Get(i));
    float* const sums = PutFloats(y);
    ops().Add(n, PutFloats(x), sums);
    Expect(sums, wanted, {}, "sums");
  }
}

TEST_P(OpsContractTest, Scales) {
  for (const int64_t n : {1, 8, 131, 70001}) {
    const HostArray x = Random(DType::kF32, n, 1);
    HostArray wanted = x;
    for (int64_t i = 0; i < n; ++i) wanted.Set(i, x.Get(i) * 0.3f);
    float* const scaled = PutFloats(x);
    ops().Scale(n, 0.3f, scaled);
    Expect(scaled, wanted, {}, "scaled");
  }
}

// Sequences divided among ranks, and a rank's rows divided again.
struct ShareCase {
  int64_t ranks, L, B, C, first_row;
};
constexpr ShareCase kShares[] = {{1, 3, 2, 8, 0},  {2, 5, 2, 24, 0},   {2, 5, 2, 24, 7},
                                 {3, 4, 3, 33, 9}, {4, 16, 1, 520, 3}, {3, 1, 2, 4097, 1}};

// Rows [first_row, …) of a rank's.
HostArray Own(const ShareCase& c, int64_t rank, const HostArray& whole) {
  const HostArray rows = RowsOf({c.ranks, c.L}, rank, c.B, c.C, whole);
  HostArray own(whole.type(), (c.B * 2 * c.L - c.first_row) * c.C);
  std::memcpy(own.data(), rows.As<char>() + c.first_row * c.C * SizeOf(whole.type()), own.bytes());
  return own;
}

TEST_P(OpsContractTest, SharesDropWhatTheWholeDrops) {
  const DropoutMask mask(42, "embedding", 77, 0.3f);
  for (const ShareCase& c : kShares) {
    const ZigZag z = {c.ranks, c.L};
    const DropoutShape whole = {
        .elements = c.B * z.T() * c.C, .size = z.T() * c.C, .first_example = 9};
    const HostArray x = Random(DType::kF32, whole.elements, 1);
    HostArray dropped = x;
    Dropout(mask, whole, x.As<float>(), dropped.As<float>());
    for (int64_t r = 0; r < c.ranks; ++r) {
      SCOPED_TRACE(testing::Message() << "rank " << r << " of " << c.ranks << ", C " << c.C);
      OpDropout dropout = PutDropout(mask, whole);
      dropout.first_element = c.first_row * c.C;
      dropout.share = z.Share(r);
      const HostArray own = Own(c, r, x);
      float* const got = PutFloats(own);
      ops().Dropout(dropout, own.size(), whole.size, got);
      Expect(got, Own(c, r, dropped), {}, "dropped");
    }
  }
}

TEST_P(OpsContractTest, NormsOfSharesDropWhatTheWholeDrops) {
  const DropoutMask mask(42, "branch", 77, 0.3f);
  for (const ShareCase& c : kShares) {
    const ZigZag z = {c.ranks, c.L};
    const NormShape whole = {.rows = c.B * z.T(), .width = c.C};
    const DropoutShape dropout = {
        .elements = whole.rows * c.C, .size = z.T() * c.C, .first_example = 9};
    const HostArray x = Random(DType::kF32, dropout.elements, 1);
    const HostArray branch = Random(type(), dropout.elements, 2);
    const HostArray dout = Random(type(), dropout.elements, 3);
    const HostArray gain = Random(DType::kF32, c.C, 4);
    HostArray sum = x, out = branch, dx = x, dbranch = branch;
    HostArray mean(DType::kF32, whole.rows), rstd(DType::kF32, whole.rows);
    HostArray dgain = Filled(DType::kF32, c.C, 0);
    WithType(type(), [&](auto zero) {
      using T = decltype(zero);
      NormInputs<T> in;
      in.x = x.As<float>();
      in.branch = branch.As<T>();
      in.mask = &mask;
      in.dropout = dropout;
      in.gain = gain.As<float>();
      Norm<T>(whole, in,
              {.sum = sum.As<float>(),
               .out = out.As<T>(),
               .mean = mean.As<float>(),
               .rstd = rstd.As<float>()});
      NormBackward<T>(
          whole,
          {.sum = sum.As<float>(),
           .gain = gain.As<float>(),
           .mean = mean.As<float>(),
           .rstd = rstd.As<float>(),
           .dout = dout.As<T>(),
           .mask = &mask,
           .dropout = dropout},
          {.dx = dx.As<float>(), .dbranch = dbranch.As<T>(), .gain = dgain.As<float>()});
    });
    for (int64_t r = 0; r < c.ranks; ++r) {
      SCOPED_TRACE(testing::Message() << "rank " << r << " of " << c.ranks << ", C " << c.C);
      OpDropout op_dropout = PutDropout(mask, dropout);
      op_dropout.first_element = c.first_row * c.C;
      op_dropout.share = z.Share(r);
      const HostArray own = Own(c, r, x);
      const NormShape shape = {.rows = own.size() / c.C, .width = c.C};
      float* const got_sum = Floats(own.size());
      void* const got_out = Room(type(), own.size());
      float* const got_mean = Floats(shape.rows);
      float* const got_rstd = Floats(shape.rows);
      float* const put_gain = PutFloats(gain);
      ops().Norm(shape, type(),
                 {.x = PutFloats(own),
                  .branch = Put(Own(c, r, branch)),
                  .dropout = op_dropout,
                  .rows_per_example = z.T(),
                  .gain = put_gain},
                 {.sum = got_sum, .out = got_out, .mean = got_mean, .rstd = got_rstd});
      float* const got_dx = Floats(own.size());
      void* const got_dbranch = Room(type(), own.size());
      ops().NormBackward(
          shape, type(),
          {.sum = got_sum,
           .gain = put_gain,
           .mean = got_mean,
           .rstd = got_rstd,
           .dout = Put(Own(c, r, dout)),
           .dropout = op_dropout,
           .rows_per_example = z.T()},
          {.dx = got_dx, .dbranch = got_dbranch, .gain = PutFloats(Filled(DType::kF32, c.C, 0))});
      Expect(got_sum, Own(c, r, sum), {.absolute = 1e-6}, "sum");
      Expect(got_out, Own(c, r, out), {.absolute = 1e-5, .relative = 1e-5}, "out");
      Expect(got_dx, Own(c, r, dx), {.absolute = 1e-5, .relative = 1e-5}, "dx");
      Expect(got_dbranch, Own(c, r, dbranch), {.absolute = 1e-5, .relative = 1e-5}, "dbranch");
    }
  }
}

}  // namespace
}  // namespace muster
