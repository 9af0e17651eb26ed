// Attention.
#include <cmath>
#include <cstring>
#include <vector>

#include "common/compute/ops_contract.h"
#include "common/kernels/transformer/documents_for_testing.h"

namespace muster {
namespace {

struct AttentionCase {
  int64_t B, T, H, KV, D;
  // Elements between rows of qkv and of out.
  int64_t gap = 0;
  float scale = 0;
  float dropout = 0;
  // The seed of DocumentPositions; 0: each sequence is one document.
  uint32_t documents = 0;
  // AttentionShape::window.
  int64_t window = 0;
};

// One token; tails of tiles; shared key-value heads; every size of head for which a device has a
// kernel, and between; heads that cannot be read by chunks; dropout on each way.
constexpr AttentionCase kAttentions[] = {{1, 1, 1, 1, 1},
                                         {1, 1, 1, 1, 8},
                                         {2, 17, 4, 2, 16},
                                         {1, 64, 2, 2, 32},
                                         {1, 130, 2, 1, 64},
                                         {2, 65, 2, 1, 40, 8},
                                         {1, 70, 3, 1, 80},
                                         {1, 130, 1, 1, 96},
                                         {1, 100, 2, 1, 128, 16},
                                         {1, 70, 2, 1, 192},
                                         {1, 130, 1, 1, 256},
                                         {1, 33, 2, 1, 20},
                                         {1, 17, 2, 2, 5, 3},
                                         {1, 129, 2, 2, 24, 0, 1},
                                         {1, 200, 6, 2, 64},
                                         {2, 19, 4, 2, 16, 0, 0, 0.3f},
                                         {2, 130, 4, 2, 64, 0, 0, 0.2f},
                                         {1, 150, 2, 1, 96, 0, 0, 0.5f},
                                         {1, 70, 1, 1, 192, 0, 0, 0.1f},
                                         {1, 77, 2, 1, 20, 0, 0, 0.3f},
                                         {2, 1, 1, 1, 8, 0, 0, 0, 1},
                                         {2, 150, 2, 1, 32, 0, 0, 0, 2},
                                         {2, 330, 4, 2, 64, 0, 0, 0, 3},
                                         {1, 300, 2, 1, 40, 8, 0, 0, 4},
                                         {1, 290, 2, 1, 128, 0, 0, 0, 5},
                                         {1, 150, 2, 1, 192, 0, 0, 0, 6},
                                         {2, 200, 2, 1, 20, 0, 0, 0, 7},
                                         {1, 330, 4, 2, 64, 0, 0, 0.2f, 8},
                                         {1, 200, 2, 1, 96, 0, 0, 0.5f, 9},
                                         {1, 200, 2, 1, 20, 0, 0, 0.3f, 10},
                                         // Windows, also of documents.
                                         {1, 70, 2, 1, 64, 0, 0, 0, 0, 2},
                                         {2, 150, 2, 1, 32, 0, 0, 0, 0, 40},
                                         {2, 330, 4, 2, 64, 0, 0, 0, 11, 70},
                                         {1, 290, 2, 1, 128, 0, 0, 0.2f, 0, 129},
                                         {1, 150, 2, 1, 192, 0, 0, 0, 12, 33},
                                         {1, 200, 2, 1, 20, 0, 0, 0.3f, 13, 64}};

TEST_P(OpsContractTest, Attention) {
  for (const AttentionCase& c : kAttentions) {
    SCOPED_TRACE(testing::Message()
                 << "T " << c.T << " H " << c.H << " D " << c.D << " gap " << c.gap << " dropout "
                 << c.dropout << " documents " << c.documents << " window " << c.window);
    const int64_t rows = c.B * c.T;
    const int64_t q_end = c.H * c.D, k_end = q_end + c.KV * c.D, v_end = k_end + c.KV * c.D;
    const int64_t in_stride = v_end + c.gap, out_stride = q_end + c.gap;
    const int64_t in = rows * in_stride, out = rows * out_stride;
    AttentionShape shape = {.B = c.B,
                            .T = c.T,
                            .H = c.H,
                            .KV = c.KV,
                            .D = c.D,
                            .qkv_stride = in_stride,
                            .out_stride = out_stride,
                            .scale = c.scale,
                            .window = c.window};
    const std::vector<int32_t> positions = DocumentPositions(c.B, c.T, c.documents);
    if (c.documents != 0) shape.token_positions = positions.data();
    if (!Takes(shape)) continue;
    const HostArray qkv = Random(type(), in, 1, -2, 2), dout = Random(type(), out, 2);
    HostArray wanted(type(), out), dqkv(type(), in), logsumexp(DType::kF32, rows * c.H);
    const DropoutMask mask(5, "probabilities", 7, c.dropout);
    AttentionDropout dropout;
    OpDropout op_dropout;
    if (c.dropout > 0) {
      // As if the heads were the second half of all.
      dropout = {.mask = &mask, .first_example = 2, .first_head = c.H, .heads = 2 * c.H};
      op_dropout = PutDropout(mask, {.first_example = 2});
      op_dropout.first_head = c.H;
      op_dropout.heads = 2 * c.H;
    }
    WithType(type(), [&](auto zero) {
      using T = decltype(zero);
      Attention<T>(shape, qkv.As<T>(), wanted.As<T>(), logsumexp.As<float>(), dropout);
      AttentionBackward<T>(shape, qkv.As<T>(), wanted.As<T>(), logsumexp.As<float>(), dout.As<T>(),
                           dqkv.As<T>(), dropout);
    });
    if (c.documents != 0) shape.token_positions = PutValues(positions);
    void* const put_qkv = Put(qkv);
    void* const got = Room(type(), out);
    void* const without = Room(type(), out);
    float* const got_logsumexp = Floats(rows * c.H);
    AttentionArrays arrays = {
        .qkv = put_qkv, .out = got, .logsumexp = got_logsumexp, .dropout = op_dropout};
    ops().Attention(shape, type(), arrays);
    arrays.out = without;
    arrays.logsumexp = nullptr;
    ops().Attention(shape, type(), arrays);
    // Probabilities may be rounded before the second product.
    const double bound = 3e-6 + 3 * RoundingOf(type());
    const Columns out_columns = {.stride = out_stride, .end = q_end};
    ExpectNormwise(got, wanted, out_columns, bound, "out");
    ExpectNormwise(without, wanted, out_columns, bound, "out without logsumexp");
    Expect(got_logsumexp, logsumexp, {.absolute = 2e-5, .relative = 2e-6}, "logsumexp");

    AttentionGradientArrays gradients = {.qkv = put_qkv,
                                         .out = got,
                                         .logsumexp = got_logsumexp,
                                         .dropout = op_dropout,
                                         .dout = Put(dout),
                                         .dqkv = Room(type(), in)};
    ops().AttentionBackward(shape, type(), gradients);
    const HostArray first = Read(gradients.dqkv, type(), in);
    const double backward_bound = 2 * bound;
    // With one token its only probability is 1: no gradient reaches query or key.
    if (c.T > 1) {
      ExpectNormwise(gradients.dqkv, dqkv, {in_stride, 0, q_end}, backward_bound, "dq");
      ExpectNormwise(gradients.dqkv, dqkv, {in_stride, q_end, k_end}, backward_bound, "dk");
    }
    ExpectNormwise(gradients.dqkv, dqkv, {in_stride, k_end, v_end}, backward_bound, "dv");
    gradients.dqkv = Room(type(), in);
    ops().AttentionBackward(shape, type(), gradients);
    const HostArray again = Read(gradients.dqkv, type(), in);
    EXPECT_EQ(std::memcmp(again.data(), first.data(), first.bytes()), 0) << "a second run differs";
    if (HasFailure()) return;
  }
}

// Scores of some 40,000: all weight on the largest.
TEST_P(OpsContractTest, LargeScoresDoNotOverflow) {
  const AttentionShape shape = {.B = 1, .T = 70, .H = 1, .KV = 1, .D = 32, .scale = 1};
  HostArray qkv(type(), 70 * 96), wanted(type(), 70 * 32);
  for (int64_t t = 0; t < 70; ++t) {
    const auto place = static_cast<float>(t);
    for (int64_t d = 0; d < 32; ++d) {
      qkv.Set(t * 96 + d, 50);
      qkv.Set(t * 96 + 32 + d, t == 3 ? 25 : -0.25f * place);
      qkv.Set(t * 96 + 64 + d, place);
      wanted.Set(t * 32 + d, t < 3 ? 0 : 3);
    }
  }
  void* const out = Room(type(), wanted.size());
  ops().Attention(shape, type(), {.qkv = Put(qkv), .out = out});
  Expect(out, wanted, {}, "out");
}

TEST_P(OpsContractTest, ANanReachesTheTokensThatSeeIt) {
  const AttentionShape shape = {.B = 1, .T = 70, .H = 1, .KV = 1, .D = 32};
  HostArray qkv = Random(type(), 70 * 96, 1);
  qkv.Set(40 * 96 + 33, NAN);
  void* const out = Room(type(), 70 * 32);
  ops().Attention(shape, type(), {.qkv = Put(qkv), .out = out});
  const HostArray got = Read(out, type(), 70 * 32);
  for (int64_t t = 0; t < 70; ++t) ASSERT_EQ(std::isnan(got.Get(t * 32)), t >= 40) << t;
}

}  // namespace
}  // namespace muster
