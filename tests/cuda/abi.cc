/*
 * Our declarations of NVIDIA's functions and numbers against the vendor's headers: every row of
 * trainer/cuda-lib.def must have the same arguments, with `int` where the vendor has an enumeration
 * and nothing else different. It is compiled, never run.
 */
#include <cstddef>
#include <type_traits>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cublas_v2.h>
#include <cudnn.h>
#include <nccl.h>
#include <nvrtc.h>

/* An enumeration counts as int, at any depth of pointers. */
template <typename T> struct plain {
    using type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <typename T> struct plain<const T> {
    using type = const typename plain<T>::type;
};
template <typename T> struct plain<T *> {
    using type = typename plain<T>::type *;
};
template <typename R, typename... A> struct plain<R(A...)> {
    using type = typename plain<R>::type(typename plain<A>::type...);
};
template <typename R, typename... A> struct plain<R(A...) noexcept> {
    using type = typename plain<R>::type(typename plain<A>::type...);
};

/* A const that only says what a function does with its own copy, or with an opaque struct, binds no
 * caller: descriptors are passed on as they came. */
template <typename T> struct opaque_const {
    using type = T;
};
template <typename T> struct opaque_const<const T *> {
    using type = std::conditional_t<std::is_class_v<T>, T *, const T *>;
};
template <typename R, typename... A> struct opaque_const<R(A...)> {
    using type = R(typename opaque_const<A>::type...);
};
template <typename F> using shape = typename opaque_const<typename plain<F>::type>::type;

/* Functions that have overloads in C++: the C one of them. */
constexpr auto c_malloc = static_cast<cudaError_t (*)(void **, size_t)>(cudaMalloc);
constexpr auto c_host_alloc =
    static_cast<cudaError_t (*)(void **, size_t, unsigned)>(cudaHostAlloc);
constexpr auto c_gemm = static_cast<cublasStatus_t (*)(
    cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void *, const void *,
    cudaDataType, int, const void *, cudaDataType, int, const void *, void *, cudaDataType, int,
    cublasComputeType_t, cublasGemmAlgo_t)>(cublasGemmEx);
#define cudaMalloc    c_malloc
#define cudaHostAlloc c_host_alloc
#define cublasGemmEx  c_gemm

#define FN(library, result, name, symbol, args)                                              \
    using ours_##name = result args;                                                         \
    static_assert(                                                                           \
        std::is_same_v<shape<ours_##name>,                                                   \
                       shape<std::remove_pointer_t<std::remove_const_t<decltype(symbol)>>>>, \
        #symbol);
#include "cuda-lib.def"
#undef FN

/* Names of cuda-lib.h that are the vendor's, too. */
#define CUDA_R_32F                          OUR_R_32F
#define CUDA_R_16BF                         OUR_R_16BF
#define cudnnConvolutionFwdAlgoPerf_t       our_forward
#define cudnnConvolutionBwdDataAlgoPerf_t   our_data
#define cudnnConvolutionBwdFilterAlgoPerf_t our_filter
#define ncclUniqueId                        our_id
#define ncclConfig_t                        our_config
#include "cuda-types.h"
#undef CUDA_R_32F
#undef CUDA_R_16BF
#undef cudnnConvolutionFwdAlgoPerf_t
#undef cudnnConvolutionBwdDataAlgoPerf_t
#undef cudnnConvolutionBwdFilterAlgoPerf_t
#undef ncclUniqueId
#undef ncclConfig_t

#define SAME(ours, theirs) \
    static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #theirs)
SAME(CUDA_E_INIT_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CUDA_E_MEMORY, cudaErrorMemoryAllocation);
SAME(CUDA_E_NOT_READY, cudaErrorNotReady);
SAME(CUDA_HOST_TO_DEVICE, cudaMemcpyHostToDevice);
SAME(CUDA_DEVICE_TO_HOST, cudaMemcpyDeviceToHost);
SAME(CUDA_DEVICE_TO_DEVICE, cudaMemcpyDeviceToDevice);
SAME(CUDA_STREAM_NON_BLOCKING, cudaStreamNonBlocking);
SAME(CUDA_EVENT_NO_TIMING, cudaEventDisableTiming);
SAME(CUDA_CAPTURE_THREAD, cudaStreamCaptureModeThreadLocal);
SAME(CUDA_ATTR_PROCESSORS, cudaDevAttrMultiProcessorCount);
SAME(CUDA_ATTR_MAJOR, cudaDevAttrComputeCapabilityMajor);
SAME(CUDA_ATTR_MINOR, cudaDevAttrComputeCapabilityMinor);
SAME(OUR_R_32F, CUDA_R_32F);
SAME(OUR_R_16BF, CUDA_R_16BF);
SAME(CUBLAS_N, CUBLAS_OP_N);
SAME(CUBLAS_T, CUBLAS_OP_T);
SAME(CUBLAS_32F, CUBLAS_COMPUTE_32F);
SAME(CUBLAS_32F_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(CUBLAS_HOW, CUBLAS_GEMM_DEFAULT);
SAME(CUDNN_NHWC, CUDNN_TENSOR_NHWC);
SAME(CUDNN_FLOAT, CUDNN_DATA_FLOAT);
SAME(CUDNN_BF16, CUDNN_DATA_BFLOAT16);
SAME(CUDNN_CROSS, CUDNN_CROSS_CORRELATION);
SAME(CUDNN_TENSOR_MATH, CUDNN_TENSOR_OP_MATH);
SAME(CUDNN_FMA, CUDNN_FMA_MATH);
SAME(CUDNN_SAME_BITS, CUDNN_DETERMINISTIC);
SAME(NCCL_FLOAT, ncclFloat32);
SAME(NCCL_SUM, ncclSum);
SAME(NCCL_BUSY, ncclInProgress);
SAME(NCCL_CONFIG_VERSION, NCCL_VERSION(2, 14, 0));
SAME(sizeof(our_id), sizeof(ncclUniqueId));
SAME(offsetof(our_config, magic), offsetof(ncclConfig_t, magic));
SAME(offsetof(our_config, version), offsetof(ncclConfig_t, version));
SAME(offsetof(our_config, blocking), offsetof(ncclConfig_t, blocking));

#define WAY(theirs, algo_)                                               \
    SAME(sizeof(cudnn_way), sizeof(theirs));                             \
    SAME(offsetof(cudnn_way, status), offsetof(theirs, status));         \
    SAME(offsetof(cudnn_way, memory), offsetof(theirs, memory));         \
    SAME(offsetof(cudnn_way, same_bits), offsetof(theirs, determinism)); \
    SAME(offsetof(cudnn_way, math), offsetof(theirs, mathType))
WAY(cudnnConvolutionFwdAlgoPerf_t, algo);
WAY(cudnnConvolutionBwdDataAlgoPerf_t, algo);
WAY(cudnnConvolutionBwdFilterAlgoPerf_t, algo);
