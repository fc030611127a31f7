/* NVIDIA's numbers and types as the GPU backend uses them, declared by ourselves: tests/cuda/abi.cc
 * compares them with the vendor's headers. */
#ifndef SAMPAN_TRAIN_CUDA_TYPES_H
#define SAMPAN_TRAIN_CUDA_TYPES_H

#include <stddef.h>

/* Numbers that the vendor's headers name. */
enum cuda_number {
    CUDA_E_INIT_NO_DEVICE = 100,  /* CUDA_ERROR_NO_DEVICE */
    CUDA_E_MEMORY = 2,            /* cudaErrorMemoryAllocation */
    CUDA_E_NOT_READY = 600,       /* cudaErrorNotReady */
    CUDA_HOST_TO_DEVICE = 1,      /* cudaMemcpyHostToDevice */
    CUDA_DEVICE_TO_HOST = 2,      /* cudaMemcpyDeviceToHost */
    CUDA_DEVICE_TO_DEVICE = 3,    /* cudaMemcpyDeviceToDevice */
    CUDA_STREAM_NON_BLOCKING = 1, /* cudaStreamNonBlocking */
    CUDA_EVENT_NO_TIMING = 2,     /* cudaEventDisableTiming */
    CUDA_CAPTURE_THREAD = 1,      /* cudaStreamCaptureModeThreadLocal */
    CUDA_ATTR_PROCESSORS = 16,    /* cudaDevAttrMultiProcessorCount */
    CUDA_ATTR_MAJOR = 75,         /* cudaDevAttrComputeCapabilityMajor */
    CUDA_ATTR_MINOR = 76,         /* cudaDevAttrComputeCapabilityMinor */
    CUDA_R_32F = 0,               /* CUDA_R_32F */
    CUDA_R_16BF = 14,             /* CUDA_R_16BF */
    CUBLAS_N = 0,                 /* CUBLAS_OP_N */
    CUBLAS_T = 1,                 /* CUBLAS_OP_T */
    CUBLAS_32F = 68,              /* CUBLAS_COMPUTE_32F */
    CUBLAS_32F_TF32 = 77,         /* CUBLAS_COMPUTE_32F_FAST_TF32 */
    CUBLAS_HOW = -1,              /* CUBLAS_GEMM_DEFAULT */
    CUDNN_NHWC = 1,               /* CUDNN_TENSOR_NHWC */
    CUDNN_FLOAT = 0,              /* CUDNN_DATA_FLOAT */
    CUDNN_BF16 = 9,               /* CUDNN_DATA_BFLOAT16 */
    CUDNN_CROSS = 1,              /* CUDNN_CROSS_CORRELATION */
    CUDNN_TENSOR_MATH = 1,        /* CUDNN_TENSOR_OP_MATH */
    CUDNN_FMA = 3,                /* CUDNN_FMA_MATH */
    CUDNN_SAME_BITS = 1,          /* CUDNN_DETERMINISTIC */
    NCCL_FLOAT = 7,               /* ncclFloat32 */
    NCCL_SUM = 0,                 /* ncclSum */
    NCCL_BUSY = 7,                /* ncclInProgress */
    NCCL_CONFIG_VERSION = 21400,  /* NCCL_VERSION(2, 14, 0) */
};

struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUmod_st;
struct CUfunc_st;
struct _nvrtcProgram;
struct cublasContext;
struct cudnnContext;
struct cudnnTensorStruct;
struct cudnnFilterStruct;
struct cudnnConvolutionStruct;
struct ncclComm;

/* What cuDNN says of a way to compute a convolution. */
struct cudnn_way {
    int how, status;
    float time;
    size_t memory;
    int same_bits, math;
    int reserved[3];
};
typedef struct cudnn_way cudnnConvolutionFwdAlgoPerf_t;
typedef struct cudnn_way cudnnConvolutionBwdDataAlgoPerf_t;
typedef struct cudnn_way cudnnConvolutionBwdFilterAlgoPerf_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
/* As NCCL 2.14 had it; later versions take for not said what they have behind it. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking;
} ncclConfig_t;

#endif
