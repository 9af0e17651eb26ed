#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_H_

#include <cstdint>

#include "common/kernels/accumulation.h"
#include "common/kernels/transformer/dropout.h"
#include "common/tensor/bfloat16.h"

namespace muster {

// Causal self-attention of B sequences of T tokens, H query heads that share KV key-value heads
// (query head h reads key-value head h / (H / KV)), D elements each.
//
// A row of qkv is [H query heads | KV key heads | KV value heads], each head D elements; row b · T
// + t is token t of sequence b. Queries and keys are rotated already where positions are rotary.
//
// By tiles with online softmax (Dao et al., "FlashAttention", 2022; Rabe and Staats, 2021): no T ×
// T array exists; backward computes probabilities again from the logsumexp of each row. Arithmetic
// is f32 for both types, with fused multiply-add where the machine has it: for one instruction set
// the same bits on any number of threads.
//
// All run on ComputeThreads() threads (forward by sequences, heads and runs of queries; backward by
// sequences and key-value heads) and keep scratch of about 5 · T · D floats a thread (D rounded up
// to 16) for the thread's life. Thread-safe. Extents may be 0. T is float, BFloat16 or Float16.
struct AttentionShape {
  int64_t B = 0;
  int64_t T = 0;
  // Query heads.
  int64_t H = 0;
  // Key-value heads; H is a multiple of it.
  int64_t KV = 0;
  // At most 256.
  int64_t D = 0;
  // Elements from one row of qkv to the next; 0: (H + 2 KV) · D.
  int64_t qkv_stride = 0;
  // Elements from one row of the output [B · T, H · D] to the next; 0: H · D.
  int64_t out_stride = 0;
  // What products of queries and keys are multiplied by; 0: 1 / √D.
  float scale = 0;
  // The position of each token within its document, [B, T], where documents share a sequence: 0 at
  // a document's first token, and one more at each of the others. Query t then sees the keys of its
  // own document alone, [t - position, t], and tiles that no query of theirs sees are passed over.
  // Null: a sequence is one document. A sequence's first position is 0. Not for CachedAttention.
  const int32_t* token_positions = nullptr;
  // Above 0: a query sees its own key and so many less one before it, of those that it would see
  // anyway. Tiles that no query of theirs sees are passed over, too.
  int64_t window = 0;
};

// Dropout of the probabilities, after the softmax: a row's sum is that of all. Keys of query t of
// head h of the sequence with global index x are the elements of the mask's example (x · heads + h)
// · T + t.
struct AttentionDropout {
  // Null: nothing is dropped.
  const DropoutMask* mask = nullptr;
  // Global index of the first sequence.
  uint64_t first_example = 0;
  // Global index of the first query head, and how many there are; 0: H.
  int64_t first_head = 0;
  int64_t heads = 0;
};

// out = dropout(softmax(scale · q kᵀ, causal, of one document)) · v, laid out [B · T, H · D];
// logsumexp[b, h, t] (f32, [B, H, T]) for backward, null where there is none.
template <typename T>
void Attention(const AttentionShape& shape, const T* qkv, T* out, float* logsumexp,
               const AttentionDropout& dropout = {});

// dqkv, laid out as qkv (with qkv_stride; what lies between rows is left alone), is written from
// dout, laid out as out. `out`, `logsumexp` and `dropout` are forward's. dqkv may be qkv itself:
// what a head needs is read before it is written.
template <typename T>
void AttentionBackward(const AttentionShape& shape, const T* qkv, const T* out,
                       const float* logsumexp, const T* dout, T* dqkv,
                       const AttentionDropout& dropout = {});

// A chunk of the queries of each sequence against a chunk of its keys, where ranks divide
// sequences. In AttentionShape, T is then that of whole sequences, and token_positions, [B,
// query_rows], begins with the chunk's first query.
//
// Pointers to arrays of queries (also of out, dout, logsumexp, delta) and of keys point to the row
// of the chunk's first token in the first sequence. Query t of the chunk, at position first_query +
// t of the sequence, sees those keys of the chunk that it would see in the whole: perhaps none.
struct AttentionPart {
  // Tokens of the two chunks, in each sequence.
  int64_t queries = 0;
  int64_t keys = 0;
  // Positions in the whole sequence of the chunks' first tokens.
  int64_t first_query = 0;
  int64_t first_key = 0;
  // Rows from one sequence to the next in arrays of queries, and in those of keys.
  int64_t query_rows = 0;
  int64_t key_rows = 0;
  // Elements from one row [KV key heads | KV value heads] to the next; 0: 2 KV · D.
  int64_t key_stride = 0;
};

// Attention of the part's queries to the part's keys, `out` in f32 with out_stride. kAdd: merges it
// with the result of other keys that `out` and `logsumexp` [B, H, query_rows] hold; after all keys
// of the sequence, in any order, they are Attention's. Queries that have seen no key have out 0 and
// logsumexp -∞. A part of which no query sees a key costs next to nothing. Queries lie in rows of
// qkv_stride and begin with head 0.
template <typename T>
void AttentionOfPart(const AttentionShape& shape, const AttentionPart& part, const T* queries,
                     const T* keys_values, Accumulation accumulation, float* out, float* logsumexp,
                     const AttentionDropout& dropout = {});

// delta[b, h, t] = out · dout of `rows` rows of each sequence, for AttentionPartBackward: [B, H,
// rows]. Both lie in rows of out_stride.
template <typename T>
void AttentionDelta(const AttentionShape& shape, int64_t rows, const T* out, const T* dout,
                    float* delta);

// Adds what the part contributes to the gradients of its queries, [B, query_rows, H · D], and of
// its keys and values, [B, key_rows, 2 KV · D], all f32 and dense. `logsumexp` is that of all keys.
template <typename T>
struct AttentionPartGradients {
  const T* queries = nullptr;
  const T* keys_values = nullptr;
  const float* logsumexp = nullptr;
  const float* delta = nullptr;
  const T* dout = nullptr;
  float* dqueries = nullptr;
  float* dkeys_values = nullptr;
};
template <typename T>
void AttentionPartBackward(const AttentionShape& shape, const AttentionPart& part,
                           const AttentionPartGradients<T>& arrays,
                           const AttentionDropout& dropout = {});

// Keys and values of one layer for generation, [B, KV, capacity, D] each, in f32.
struct KeyValueCache {
  float* keys = nullptr;
  float* values = nullptr;
  int64_t capacity = 0;
};

// Writes the keys and values of qkv's T tokens of each sequence into the cache at positions
// [first_position, first_position + T). shape.H says how many query heads to pass over. REQUIRES:
// first_position + T <= capacity.
void AppendKeyValues(const AttentionShape& shape, int64_t first_position, const float* qkv,
                     const KeyValueCache& cache);

// Attention of the T tokens of qkv (often one), at positions [first_position, first_position + T),
// over the cache, in which their own keys and values already are: token t sees positions <=
// first_position + t, or shape.window of these. Only queries are read from qkv.
void CachedAttention(const AttentionShape& shape, int64_t first_position, const float* qkv,
                     const KeyValueCache& cache, float* out);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_H_
